import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Docker from 'dockerode';
import { connectEngine } from '@longshore/worker/runtime/docker/engine/docker-engine';
import { PATH } from './engine-programs.js';

const PODMAN = '/usr/bin/podman';
const READY_MS = 60_000;

/**
 * Debian's Podman as a service on a socket, all of its files in one temporary folder: as root, with cgroupfs and the storage
 * driver vfs, and without networks but `none` and the host's. The limits of files and processes are those that a machine may set
 * that grants no higher ones.
 */
export class PodmanEngine {
  readonly host: string;

  private constructor(
    readonly folder: string,
    readonly docker: Docker,
    private readonly service: ChildProcess,
  ) {
    this.host = `unix://${join(folder, 'podman.sock')}`;
  }

  /** Why there is none on this machine; false: there is one. */
  static get skip(): string | false {
    if (process.getuid?.() !== 0) return 'Podman is started as root';
    try {
      accessSync(PODMAN, constants.X_OK);
      return false;
    } catch {
      return 'Podman is not installed (see .ci/install-test-tools.sh)';
    }
  }

  /** @throws Error with the end of its log when it does not answer */
  static async start(): Promise<PodmanEngine> {
    const folder = mkdtempSync(join(tmpdir(), 'longshore-podman-'));
    const config = join(folder, 'containers.conf');
    writeFileSync(
      config,
      '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n[engine]\nruntime = "runc"\n',
    );
    const [root, run] = [join(folder, 'root'), join(folder, 'run')];
    const storage = [
      '--root',
      root,
      '--runroot',
      run,
      '--storage-driver',
      'vfs',
      '--tmpdir',
      join(folder, 'tmp'),
    ];
    const socket = join(folder, 'podman.sock');
    const log = join(folder, 'log');
    const service = spawn(
      PODMAN,
      [
        ...storage,
        '--cgroup-manager',
        'cgroupfs',
        '--events-backend',
        'file',
        'system',
        'service',
        '--time',
        '0',
        `unix://${socket}`,
      ],
      {
        detached: true,
        stdio: ['ignore', 'ignore', openSync(log, 'a')],
        env: { ...process.env, PATH, CONTAINERS_CONF: config },
      },
    );
    const docker = await connectEngine({ kind: 'socket', path: socket });
    for (const deadline = Date.now() + READY_MS; ; await sleep(100)) {
      try {
        await docker.ping();
        return new PodmanEngine(folder, docker, service);
      } catch (cause) {
        if (Date.now() > deadline || service.exitCode !== null)
          throw new Error(`Podman does not start: ${readFileSync(log, 'utf8').slice(-500)}`, { cause });
      }
    }
  }

  async stop(): Promise<void> {
    const ended = once(this.service, 'exit');
    this.service.kill('SIGTERM');
    await ended;
    rmSync(this.folder, { recursive: true, force: true });
  }
}
