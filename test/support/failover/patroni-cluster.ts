import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chown, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { accountOfServer, installedPrograms } from '../backup/installed-postgres.js';
import { freePort } from '../programs/free-port.js';
import { RecordedService } from '../history/recorded-service.js';
import { launch, until, type TestProcess } from '../service-process.js';
import { makeTestDirectory } from '../test-cluster.js';
import { PatroniNode, WITH_TESTS } from './patroni-node.js';
import { haproxySettings, type NodePorts } from './settings.js';

const PROGRAMS = ['patroni', 'etcd', 'haproxy', 'pgbouncer'] as const;
/** Where Debian has the programs of administrators. */
const PATH = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;

/** Why no cluster can be made here; false: one can. */
export async function reasonToSkip(): Promise<string | false> {
  const missing: string[] = (await installedPrograms()) === undefined ? ['postgresql'] : [];
  for (const program of PROGRAMS) {
    await promisify(execFile)('which', [program], { env: { PATH } }).catch(() => missing.push(program));
  }
  return missing.length > 0 && `the system has no ${missing.join(', ')} (.ci/install-test-tools.sh)`;
}

/** Characters of what each Patroni said, when nobody is promoted. */
const OUTPUT_SHOWN = 4000;

interface Member {
  readonly name: string;
  readonly role: string;
  readonly state: string;
}

/** Two PostgreSQL nodes with synchronous replication, run by Patroni over etcd, and an HAProxy that leads to the primary. */
export class PatroniCluster {
  private constructor(
    private readonly directory: string,
    private readonly helpers: readonly TestProcess[],
    private readonly nodes: readonly [PatroniNode, PatroniNode],
    private readonly proxyPort: number,
  ) {}

  /** Starts everything, and waits until the standby has what the primary has. */
  static async start(): Promise<PatroniCluster> {
    const user = accountOfServer();
    const programs = (await installedPrograms()) ?? assert.fail('no PostgreSQL');
    const directory = await makeTestDirectory('failover-');
    const home = join(directory, 'home');
    await mkdir(home, { mode: 0o700 });
    const [etcdPort, peerPort, proxyPort] = [await freePort(), await freePort(), await freePort()];
    const common = { home, programs, etcdPort, user };
    const nodes = [
      await PatroniNode.create({ name: 'node-0', ports: await freePorts(), ...common }),
      await PatroniNode.create({ name: 'node-1', ports: await freePorts(), ...common }),
    ] as const;
    const proxySettings = join(home, 'haproxy.cfg');
    await writeFile(
      proxySettings,
      haproxySettings(
        proxyPort,
        nodes.map((node) => node.ports),
      ),
    );
    if (user) await chown(home, user.uid, user.gid);
    const helpers = [
      await launch([...WITH_TESTS, 'etcd', ...etcdOptions(home, etcdPort, peerPort)], { cwd: home, user }),
      await launch([...WITH_TESTS, 'haproxy', '-db', '-f', proxySettings], {
        cwd: home,
        user,
        env: { PATH },
      }),
    ];
    const cluster = new PatroniCluster(directory, helpers, nodes, proxyPort);
    try {
      await nodes[0].start();
      await nodes[0].untilLeader();
      await nodes[1].start();
      await cluster.untilSynchronous();
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /** The URL through HAProxy. */
  proxyUrl(database: string): string {
    return `postgres://longshore@127.0.0.1:${this.proxyPort}/${database}?sslmode=disable`;
  }

  /** The URL that names both nodes. */
  hostsUrl(database: string): string {
    const hosts = this.nodes.map(({ ports }) => `127.0.0.1:${ports.postgres}`).join(',');
    return `postgres://longshore@${hosts}/${database}?sslmode=disable&target_session_attrs=read-write`;
  }

  /** Creates an empty database. */
  async createDatabase(name: string): Promise<void> {
    await this.#query(await this.primary(), `create database ${name}`);
  }

  /** The node that takes writes. */
  async primary(): Promise<PatroniNode> {
    const leader = (await this.#members()).find(({ role }) => role === 'leader');
    return this.nodes.find(({ name }) => name === leader?.name) ?? assert.fail('nobody leads');
  }

  /** Kills the primary and waits until the other node has its part. @returns the node, and when it was dead */
  async killPrimary(): Promise<{ readonly killed: PatroniNode; readonly at: number }> {
    const killed = await this.primary();
    await killed.kill();
    const at = RecordedService.now();
    const promoted = async () =>
      (await this.#members()).some(({ name, role }) => role === 'leader' && name !== killed.name);
    await until(promoted, 'the standby is promoted').catch((error: unknown) => {
      throw new Error(this.nodes.map(({ output }) => output.slice(-OUTPUT_SHOWN)).join('\n'), {
        cause: error,
      });
    });
    return { killed, at };
  }

  /** Switches synchronous replication on or off, and waits until PostgreSQL has it. */
  async setSynchronous(wanted: boolean): Promise<void> {
    const primary = await this.primary();
    await primary.ask('PATCH', '/config', { synchronous_mode: wanted });
    if (wanted) return this.untilSynchronous();
    await until(
      async () => (await this.#standbyNames(primary)) === '',
      'commits do not wait for a standby any longer',
    );
  }

  /** Waits until every commit is on both nodes before it is acknowledged. */
  async untilSynchronous(): Promise<void> {
    await until(
      async () => (await this.#members()).some(({ role }) => role === 'sync_standby'),
      'there is a synchronous standby',
    );
    const primary = await this.primary();
    await until(
      async () => (await this.#states(primary)).includes('sync'),
      'the primary waits for its standby',
    );
  }

  /** Lets the primary send nothing to its standby any longer; it commits all the same. */
  async stopWalSender(): Promise<void> {
    const [sender] = await this.#query<{ pid: number }>(
      await this.primary(),
      `select pid from pg_stat_replication where state = 'streaming'`,
    );
    process.kill(sender?.pid ?? assert.fail('nobody replicates'), 'SIGSTOP');
  }

  /** Hands the primary's part to the standby, in order. */
  async switchOver(): Promise<void> {
    const leader = await this.primary();
    const candidate = this.nodes.find((node) => node !== leader);
    await leader.ask('POST', '/switchover', { leader: leader.name, candidate: candidate?.name });
  }

  /** Ends every process and removes the files. */
  async stop(): Promise<void> {
    for (const helper of this.helpers) helper.signal('SIGKILL', 'group');
    for (const node of this.nodes) await node.kill();
    await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }

  /** As the first node that answers sees them; none: nobody answers. */
  async #members(): Promise<readonly Member[]> {
    for (const node of this.nodes) {
      const answer = await node.ask('GET', '/cluster').catch(() => undefined);
      if (isCluster(answer)) return answer.members;
    }
    return [];
  }

  async #states(primary: PatroniNode): Promise<string[]> {
    const senders = await this.#query<{ sync_state: string }>(
      primary,
      `select sync_state from pg_stat_replication where state = 'streaming'`,
    );
    return senders.map(({ sync_state }) => sync_state);
  }

  async #standbyNames(primary: PatroniNode): Promise<string | undefined> {
    const [row] = await this.#query<{ names: string }>(
      primary,
      `select current_setting('synchronous_standby_names') as names`,
    );
    return row?.names;
  }

  async #query<T extends object>({ ports }: PatroniNode, sql: string): Promise<T[]> {
    const client = new Client({
      connectionString: `postgres://longshore@127.0.0.1:${ports.postgres}/postgres?sslmode=disable`,
    });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query<T>(sql)).rows;
    } finally {
      await client.end();
    }
  }
}

async function freePorts(): Promise<NodePorts> {
  return { postgres: await freePort(), rest: await freePort() };
}

function etcdOptions(home: string, port: number, peerPort: number): string[] {
  const client = `http://127.0.0.1:${port}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  const options = {
    name: 'etcd',
    'data-dir': join(home, 'etcd'),
    'listen-client-urls': client,
    'advertise-client-urls': client,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': `etcd=${peer}`,
  };
  return Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
}

function isCluster(answer: unknown): answer is { members: readonly Member[] } {
  return (
    typeof answer === 'object' && answer !== null && 'members' in answer && Array.isArray(answer.members)
  );
}
