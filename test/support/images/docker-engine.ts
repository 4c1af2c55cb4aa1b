import { execFileSync, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Docker from 'dockerode';
import { connectEngine } from '@longshore/worker/runtime/docker/engine/docker-engine';
import { processStamp } from '@longshore/worker/runtime/process/process-table';
import { atEndOfFile } from '../clean-up.js';
import { cleanEngineFolder, sweepEngineFolders } from './engine-leftovers.js';
import { inVariant, runtimeFlags } from './engine-variants.js';
import { BUSYBOX, endProcess, missingForEngine, PATH } from './engine-programs.js';
import { SmallDisk } from '../postgres/small-disk.js';
import { freePort } from '../programs/free-port.js';

const READY_MS = 120_000;
const BUSYBOX_IMAGE = 'busybox:stable';

/** A container engine for tests, or why there is none. */
export interface EngineForTests {
  /** For {@link skipFor}: false, or the reason. */
  readonly skip: string | false;
  /** @throws Error when there is no engine */
  readonly engine: TestEngine;
}

export interface EngineOptions {
  /** Maps the users of containers to those from this number on (`userns-remap`). */
  readonly remappedTo?: number;
  /** The program that executes containers in place of runc: the engine's default runtime, by its name. */
  readonly ociRuntime?: string;
  /** Gives the engine a network namespace, in which containers get networks, and its host this address with a web server. */
  readonly hostAddress?: string;
  /** Flags of a default network, which engines of the tests have only with these, and with `hostAddress`. */
  readonly defaultNetwork?: readonly string[];
  /** Gives the engine a disk of this size in MB for images and containers. */
  readonly diskMb?: number;
  /**
   * Makes the engine take requests for GPUs: containers get `NVIDIA_VISIBLE_DEVICES`, and nothing else of them. `failGpus` makes
   * them fail.
   */
  readonly hasGpus?: boolean;
}

const started = new Set<TestEngine>();

atEndOfFile(async () => {
  for (const engine of started) await engine.stop();
  started.clear();
});

/**
 * Starts an engine and a registry until the end of this test file. Where that is impossible the tests skip with the reason, except
 * when CI=true or LONGSHORE_REQUIRE_ENGINE=1 say that they must run.
 * @throws Error with the reason when an engine is required and cannot be started
 */
export async function startTestEngine(asked: EngineOptions = {}): Promise<EngineForTests> {
  const options = inVariant(asked);
  let reason = missingForEngine(options.ociRuntime);
  let engine: TestEngine | null = null;
  if (reason === null) {
    try {
      engine = await TestEngine.start(options);
      started.add(engine);
    } catch (error) {
      reason = `no container engine: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  if (reason !== null && (process.env['CI'] === 'true' || process.env['LONGSHORE_REQUIRE_ENGINE'] === '1')) {
    throw new Error(reason);
  }
  return {
    skip: reason ?? false,
    get engine() {
      if (engine === null) throw new Error(reason ?? 'no container engine');
      return engine;
    },
  };
}

/**
 * `dockerd` and a registry without passwords, all of their files in one temporary folder. Containers get loopback only, unless
 * the engine has its own namespace: the host's network and firewall stay as they are.
 */
export class TestEngine {
  /** Folder of the tests that make images, removed with the engine. */
  readonly folder: string;
  /** Value for DOCKER_HOST. */
  readonly host: string;
  /** `127.0.0.1:port`, the first part of references to images in the registry. */
  readonly registry: string;
  readonly docker: Docker;
  /** For images and containers, if it has one of its own. */
  disk: SmallDisk | undefined;
  private daemon: ChildProcess | null = null;
  private registryProcess: ChildProcess | null = null;
  private hasBusybox = false;

  private constructor(
    folder: string,
    registryPort: number,
    docker: Docker,
    private readonly options: EngineOptions,
  ) {
    this.folder = folder;
    this.host = `unix://${join(folder, 'docker.sock')}`;
    this.registry = `127.0.0.1:${registryPort}`;
    this.docker = docker;
  }

  /** @throws Error that says why the engine or the registry does not start */
  static async start(options: EngineOptions = {}): Promise<TestEngine> {
    sweepEngineFolders();
    const folder = mkdtempSync(join(tmpdir(), `longshore-engine-${process.pid}-`));
    const docker = await connectEngine({ kind: 'socket', path: join(folder, 'docker.sock') });
    const engine = new TestEngine(folder, await freePort(), docker, options);
    process.once('exit', () => engine.abandon());
    try {
      await engine.mountDisk();
      engine.makeGpuHook();
      await engine.startEngine();
      await engine.startRegistry();
    } catch (error) {
      await engine.stop();
      throw error;
    }
    return engine;
  }

  async startEngine(): Promise<void> {
    const { folder } = this;
    const roots = ['--data-root', join(folder, 'data'), '--exec-root', join(folder, 'exec')];
    const own = [...roots, '--pidfile', join(folder, 'pid'), '--host', this.host];
    const { remappedTo, hostAddress, ociRuntime, defaultNetwork = ['--bridge=none'] } = this.options;
    const hostsNetwork = ['--iptables=false', '--ip6tables=false', '--ip-forward=false', '--ip-masq=false'];
    const network = [...defaultNetwork, ...(hostAddress === undefined ? hostsNetwork : [])];
    const runtime = runtimeFlags(ociRuntime, folder);
    const flags = [...own, ...network, ...runtime, '--userland-proxy=false', '--shutdown-timeout=5'];
    if (remappedTo !== undefined)
      this.daemon = this.spawn('dockerd', [...this.remapping(remappedTo), ...flags], 'unshare');
    else if (hostAddress !== undefined)
      this.daemon = this.spawn('dockerd', [...this.ownNetwork(hostAddress), ...flags], 'unshare');
    else this.daemon = this.spawn('dockerd', flags);
    await this.ready(this.daemon, 'dockerd', () => this.docker.ping());
  }

  async startRegistry(): Promise<void> {
    const config = join(this.folder, 'registry.yml');
    // JSON is YAML.
    const storage = { filesystem: { rootdirectory: join(this.folder, 'registry') } };
    writeFileSync(config, JSON.stringify({ version: 0.1, storage, http: { addr: this.registry } }));
    this.registryProcess = this.spawn('docker-registry', ['serve', config]);
    await this.ready(this.registryProcess, 'docker-registry', () => fetch(`http://${this.registry}/v2/`));
  }

  async stopRegistry(): Promise<void> {
    await endProcess(this.registryProcess, 'SIGTERM');
    this.registryProcess = null;
  }

  /** Ends the daemon, by SIGKILL as in a crash or by SIGTERM as in an upgrade, and starts it again. */
  async restartEngine(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const helper = join(this.folder, 'exec', 'containerd', 'containerd.pid');
    const helperPid = Number(readFileSync(helper, 'utf8'));
    await endProcess(this.daemon, signal);
    // It ends with the daemon. Until somebody reaps it, a new daemon would take it for alive and wait for it in vain.
    while (processStamp(helperPid) !== null) await sleep(20);
    rmSync(helper, { force: true });
    await this.startEngine();
  }

  /**
   * Builds `examples/images/NAME`, pushes it to the registry and removes it here, so that a worker has to pull it.
   * @returns its reference
   */
  async publishExample(name: string): Promise<string> {
    return this.publish(name, resolve('examples', 'images', name));
  }

  /**
   * The same for an image of a test: a shell script that runs in busybox.
   * @param dockerfile lines to add to its Dockerfile
   */
  async publishScript(name: string, script: string, dockerfile: readonly string[] = []): Promise<string> {
    return this.publish(name, this.scriptFolder(name, script, dockerfile));
  }

  /** Builds such an image and leaves it in the engine, in no registry. */
  async buildScript(name: string, script: string, dockerfile: readonly string[] = []): Promise<string> {
    const reference = `longshore-test/${name}:latest`;
    await this.build(reference, this.scriptFolder(name, script, dockerfile));
    return reference;
  }

  /** Executes a command of a shell in the network namespace of an engine that has one. */
  inNetwork(command: string): void {
    const { pid } = this.daemon ?? {};
    execFileSync('nsenter', ['--net', '--target', String(pid), 'sh', '-c', command], {
      env: { ...process.env, PATH },
    });
  }

  /** Removes an image from the engine. */
  async removeImage(reference: string): Promise<void> {
    await this.docker.getImage(reference).remove({ force: true });
  }

  /** Ids of all containers, running or not. */
  async containerIds(): Promise<string[]> {
    return (await this.docker.listContainers({ all: true })).map(({ Id }) => Id);
  }

  /** Ends everything and removes every file and mount. */
  async stop(): Promise<void> {
    if (this.daemon !== null && this.daemon.exitCode === null) {
      const ids = await this.containerIds().catch(() => []);
      await Promise.all(
        ids.map((id) =>
          this.docker
            .getContainer(id)
            .remove({ force: true })
            .catch(() => undefined),
        ),
      );
    }
    await this.stopRegistry();
    await endProcess(this.daemon, 'SIGTERM');
    this.daemon = null;
    cleanEngineFolder(this.folder);
  }

  private async mountDisk(): Promise<void> {
    const { diskMb } = this.options;
    if (diskMb === undefined) return;
    const data = join(this.folder, 'data');
    mkdirSync(data);
    this.disk = await SmallDisk.mount(diskMb, data);
  }

  /** What the engine looks for at its start to know that there are GPUs, and executes before a container that has some. */
  private makeGpuHook(): void {
    if (this.options.hasGpus !== true) return;
    mkdirSync(join(this.folder, 'tools'));
    symlinkSync('/bin/true', join(this.folder, 'tools', 'nvidia-container-runtime-hook'));
  }

  /** Makes the hook fail with these words before a container with GPUs; null: succeed again. */
  failGpus(words: string | null): void {
    const hook = join(this.folder, 'tools', 'nvidia-container-runtime-hook');
    rmSync(hook);
    const script = words === null ? 'exit 0' : `echo 'nvidia-container-cli: ${words}' >&2; exit 1`;
    writeFileSync(hook, `#!/bin/sh\n${script}\n`);
    chmodSync(hook, 0o755);
  }

  private async publish(name: string, folder: string): Promise<string> {
    const repo = `${this.registry}/examples/${name}`;
    const reference = `${repo}:latest`;
    await this.build(reference, folder);
    const report = await this.docker.getImage(repo).push({ tag: 'latest', authconfig: {} });
    await this.follow(report);
    await this.removeImage(reference);
    return reference;
  }

  private async build(reference: string, folder: string): Promise<void> {
    await this.importBusybox();
    const context = { context: folder, src: ['Dockerfile', 'program'] };
    await this.follow(await this.docker.buildImage(context, { t: reference, forcerm: true }));
  }

  /** A local stand-in for the image that the examples' Dockerfiles start from. */
  private async importBusybox(): Promise<void> {
    if (this.hasBusybox) return;
    const root = join(this.folder, 'busybox');
    const archive = `${root}.tar`;
    mkdirSync(join(root, 'bin'), { recursive: true });
    mkdirSync(join(root, 'tmp'));
    chmodSync(join(root, 'tmp'), 0o1777);
    copyFileSync(BUSYBOX, join(root, 'bin', 'busybox'));
    const applets = execFileSync(BUSYBOX, ['--list'], { encoding: 'utf8' }).split('\n');
    for (const applet of applets.filter((name) => name !== '' && name !== 'busybox')) {
      symlinkSync('busybox', join(root, 'bin', applet));
    }
    execFileSync('tar', ['-C', root, '--owner=0', '--group=0', '-cf', archive, '.']);
    const [repo, tag] = BUSYBOX_IMAGE.split(':');
    await this.follow(await this.docker.importImage(createReadStream(archive), { repo, tag }));
    this.hasBusybox = true;
  }

  private scriptFolder(name: string, script: string, dockerfile: readonly string[]): string {
    const folder = join(this.folder, `image-${name}`);
    mkdirSync(folder, { recursive: true });
    const lines = [
      `FROM ${BUSYBOX_IMAGE}`,
      'COPY program /program',
      ...dockerfile,
      'ENTRYPOINT ["/program"]',
      '',
    ];
    writeFileSync(join(folder, 'Dockerfile'), lines.join('\n'));
    writeFileSync(join(folder, 'program'), `#!/bin/sh\n${script}\n`);
    chmodSync(join(folder, 'program'), 0o755);
    return folder;
  }

  /** Waits for the end of a build's, push's or import's report. */
  private async follow(report: NodeJS.ReadableStream): Promise<void> {
    let text = '';
    for await (const piece of report) text += piece.toString();
    const error = /"error":"((?:[^"\\]|\\.)*)"/.exec(text)?.[1];
    if (error !== undefined) throw new Error(`engine: ${error}`);
  }

  /** Arguments of `unshare` that start dockerd with its own /etc/subuid: that of the machine stays as it is. */
  private remapping(from: number): string[] {
    const file = join(this.folder, 'subids');
    writeFileSync(file, `daemon:${from}:65536\n`);
    // The users of containers must get to their files.
    chmodSync(this.folder, 0o711);
    const script =
      'mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid && exec dockerd --userns-remap=daemon "$@"';
    return ['--mount', '--propagation', 'private', 'sh', '-c', script, file];
  }

  /** Arguments of `unshare` that start dockerd in a network with nothing but this address. The web server ends with it. */
  private ownNetwork(address: string): string[] {
    const folder = join(this.folder, 'web');
    mkdirSync(folder);
    writeFileSync(join(folder, 'index.html'), 'reached\n');
    const script = [
      'ip link set lo up && ip address add "$0/32" dev lo',
      `setpriv --pdeathsig KILL ${BUSYBOX} httpd -f -p "$0:80" -h "$1" &`,
      'shift && exec dockerd "$@"',
    ];
    return ['--net', 'sh', '-c', script.join('\n'), address, folder];
  }

  private spawn(name: string, args: readonly string[], command = name): ChildProcess {
    const log = openSync(join(this.folder, `${name}.log`), 'a');
    try {
      // Detached, or Ctrl-C would reach it before the tests could clean up.
      return spawn(command, args, {
        stdio: ['ignore', log, log],
        detached: true,
        env: { ...process.env, PATH: `${join(this.folder, 'tools')}:${PATH}` },
      });
    } finally {
      closeSync(log);
    }
  }

  private async ready(child: ChildProcess, name: string, ask: () => Promise<unknown>): Promise<void> {
    const deadline = Date.now() + READY_MS;
    let failed = '';
    child.once('error', (error) => {
      failed = `${error.message} `;
    });
    for (;;) {
      try {
        await ask();
        return;
      } catch (cause) {
        const hasEnded = failed !== '' || child.exitCode !== null || child.signalCode !== null;
        if (hasEnded || Date.now() > deadline) {
          throw new Error(`${name} does not start: ${failed}${this.logTail(name)}`, { cause });
        }
      }
      await sleep(100);
    }
  }

  private logTail(name: string): string {
    const path = join(this.folder, `${name}.log`);
    return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').slice(-3).join(' | ') : 'no log';
  }

  /** Last resort when the test process ends without having stopped the engine. */
  private abandon(): void {
    for (const child of [this.registryProcess, this.daemon]) child?.kill('SIGTERM');
  }
}
