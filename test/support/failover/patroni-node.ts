import assert from 'node:assert/strict';
import { chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { readPostmasterFile, servesCluster } from '@longshore/embedded-postgres/postmaster-file';
import { childrenOf, processRuns, signalProcess } from '../programs/child-processes.js';
import { launch, until, type ProcessOptions, type TestProcess } from '../service-process.js';
import { patroniSettings, type NodePorts } from './settings.js';

/** Starts a program that ends with this process, also when that is killed. */
export const WITH_TESTS = ['setpriv', '--pdeathsig', 'KILL'] as const;

/** A PostgreSQL and the Patroni that runs it. */
export class PatroniNode {
  #patroni: TestProcess | undefined;

  private constructor(
    readonly name: string,
    readonly ports: NodePorts,
    private readonly folder: string,
    private readonly user: ProcessOptions['user'],
  ) {}

  /** Writes the configuration; the node does not run yet. */
  static async create(node: {
    readonly name: string;
    readonly ports: NodePorts;
    /** Of the whole cluster; the node's own is below it. */
    readonly home: string;
    readonly programs: string;
    readonly etcdPort: number;
    readonly user: ProcessOptions['user'];
  }): Promise<PatroniNode> {
    const folder = join(node.home, node.name);
    await mkdir(folder, { mode: 0o700 });
    await writeFile(join(folder, 'patroni.yml'), patroniSettings({ ...node, folder }));
    if (node.user) await chown(folder, node.user.uid, node.user.gid);
    return new PatroniNode(node.name, node.ports, folder, node.user);
  }

  /** Starts Patroni, which makes or joins the cluster and starts PostgreSQL. */
  async start(): Promise<void> {
    const { folder, user } = this;
    this.#patroni = await launch([...WITH_TESTS, 'patroni', join(folder, 'patroni.yml')], {
      cwd: folder,
      user,
    });
  }

  /** What Patroni and PostgreSQL have said since the last start. */
  get output(): string {
    return this.#patroni?.output ?? '';
  }

  /** Waits until it takes writes. @throws AssertionError with what Patroni said when it ends first */
  async untilLeader(): Promise<void> {
    await this.#patroni?.untilOutput(/the leader with the lock/);
  }

  /** Kills Patroni and every process of PostgreSQL, as the end of a machine would; does nothing when none runs. */
  async kill(): Promise<void> {
    // With the programs that it has started: it may be copying the other node.
    this.#patroni?.signal('SIGKILL', 'group');
    const file = await readPostmasterFile(this.#data);
    if (file !== null && (await servesCluster(file.pid, this.#data))) {
      for (const pid of [file.pid, ...(await childrenOf(file.pid))]) signalProcess(pid, 'SIGKILL');
      await until(async () => !(await processRuns(file.pid)), `${this.name} ends`);
    }
    await this.#patroni?.exited;
  }

  /** Sends a request to Patroni's REST interface; its answer must be 2xx. */
  async ask(method: string, path: string, body?: object): Promise<unknown> {
    const response = await fetch(`http://127.0.0.1:${this.ports.rest}${path}`, {
      method,
      signal: AbortSignal.timeout(120_000),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path} of ${this.name}: ${response.status} ${text}`);
    return path === '/switchover' ? text : JSON.parse(text);
  }

  get #data(): string {
    return join(this.folder, 'data');
  }
}
