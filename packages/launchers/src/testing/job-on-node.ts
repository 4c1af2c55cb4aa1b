import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ContainerFile } from '@longshore/worker/runtime/runtime';
import type { ContainerTool } from '@longshore/worker/settings/slurm-settings';
import { JobFolders, type FolderState } from '../slurm/job-folders.js';
import { jobScript } from '../slurm/job-script.js';
import type { ArtifactPoints } from '../slurm/mounts/artifact-points.js';
import type { AttemptMount } from '../slurm/mounts/attempt-mounts.js';

/** The attempt that the job executes. */
export const KEY = { runId: 'r', attempt: 1 };

/** An empty folder as a run mounts it. */
export const SCRATCH: AttemptMount = { volume: '', source: '', subPath: '', mode: 'rw', path: '/scratch' };

const NAMESPACE = process.getuid?.() === 0 ? ['--mount'] : ['--mount', '--map-root-user'];

/** Stand-ins for container tools, which record their arguments; the one of enroot its list of mounts. */
const TOOLS = {
  apptainer: `printf '%s\\n' "$@"`,
  enroot: `source "$3"; mounts`,
  'ch-run': `printf '%s\\n' "$@"`,
} as const;

interface ProgramOptions {
  readonly scratchDir?: string;
  /** Commands before the job, in a mount namespace of both. */
  readonly before?: string;
  readonly forTool?: Readonly<Record<string, string>>;
  /** Files of the run. */
  readonly files?: readonly ContainerFile[];
  readonly tool?: ContainerTool;
  readonly artifacts?: ArtifactPoints | null;
}

/** Whether this machine lets the account of the tests mount something, which the nodes of a cluster do. */
export function canMount(): boolean {
  try {
    execFileSync('unshare', [...NAMESPACE, 'mount', '--bind', '/tmp', '/tmp'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Executes the script of a job on this machine, with programs in place of containers and folders for two volumes. */
export class JobOnNode {
  readonly base = mkdtempSync(join(tmpdir(), 'longshore-job-on-node-'));
  readonly folders = new JobFolders(this.base, 'd');
  readonly env: NodeJS.ProcessEnv = { SLURM_JOB_ID: '5', PATH: `${this.base}/bin:/usr/bin:/bin` };

  static async make(): Promise<JobOnNode> {
    const node = new JobOnNode();
    await node.folders.open();
    for (const name of ['bin', 'disk', 'in', 'out', 'image']) mkdirSync(join(node.base, name));
    writeFileSync(join(node.base, 'in', 'set'), 'content\n');
    for (const [name, words] of Object.entries(TOOLS))
      node.stub(
        name,
        `case $1 in build) mkdir -p "$4"; exit ;; create) mkdir -p "$ENROOT_DATA_PATH/$3"; exit ;; import) exit ;; esac\n{ ${words}; } >'${node.base}/got'`,
      );
    return node;
  }

  /** Asserts that the job has left nothing. */
  async close(): Promise<void> {
    await this.folders.remove(KEY);
    assert.deepEqual(readdirSync(join(this.base, 'disk')), [], 'no empty folder is left');
    assert.ok(
      !readFileSync('/proc/self/mountinfo', 'utf8').includes(this.base),
      'nothing is mounted outside',
    );
    rmSync(this.base, { recursive: true });
  }

  /** Puts a command before that of the machine. */
  stub(name: string, script: string): void {
    writeFileSync(join(this.base, 'bin', name), `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  }

  mount(volume: 'in' | 'out', fields: Partial<AttemptMount> = {}): AttemptMount {
    const mode = volume === 'in' ? 'ro' : 'rw';
    return { volume, source: join(this.base, volume), subPath: '', mode, path: `/${volume}`, ...fields };
  }

  async create(
    mounts: readonly AttemptMount[],
    { forTool = {}, files: runFiles = [], artifacts = null }: ProgramOptions = {},
  ): Promise<void> {
    const files = { workerId: 'w', image: 'i', inputs: '{}', outputs: '', env: { A: 'a' }, secrets: {} };
    const memo = { signedQueries: [], notes: [] };
    const given = { ...files, command: ['/c'], args: [], mounts, runFiles, forTool, memo, artifacts };
    await this.folders.create(KEY, { ...given, owner: null });
  }

  /** The script of a job that executes a program in place of a container. */
  job(program: string, { scratchDir = join(this.base, 'disk'), tool }: ProgramOptions = {}): string {
    this.stub('container', `cd "$LONGSHORE_JOB/mounts" && { ${program}\n} >'${this.base}/got' 2>/dev/null`);
    const own = { script: join(this.base, 'bin', 'container') };
    return jobScript({ root: this.folders.root, folder: 'r.1', tool: tool ?? own, scratchDir });
  }

  /** What a program prints that finds mounts and files as 0, 1 and so on, and ends with 0. */
  async printed(
    mounts: readonly AttemptMount[],
    program: string,
    options?: ProgramOptions,
  ): Promise<string[]> {
    rmSync(join(this.base, 'got'), { force: true });
    const { exit, hasStarted } = await this.run(mounts, program, options);
    assert.deepEqual([exit?.kind, exit?.exitCode, hasStarted], ['exited', 0, true], exit?.message);
    return readFileSync(join(this.base, 'got'), 'utf8').split('\n').slice(0, -1);
  }

  /** Cause and message of an attempt that has no container. */
  async refused(
    mounts: readonly AttemptMount[],
    program: string,
    options?: ProgramOptions,
  ): Promise<readonly [string, string]> {
    const { exit, hasStarted } = await this.run(mounts, program, options);
    assert.ok(exit !== null && !hasStarted && !existsSync(join(this.base, 'got')), 'no container');
    assert.ok(!exit.message.includes(this.base), exit.message);
    return [exit.kind, exit.message];
  }

  /** Executes the attempt. */
  private async run(
    mounts: readonly AttemptMount[],
    program: string,
    options: ProgramOptions = {},
  ): Promise<FolderState> {
    const { before = ':' } = options;
    await this.create(mounts, options);
    await new Promise((resolve) => {
      const child = execFile(
        '/usr/bin/unshare',
        [...NAMESPACE, 'bash', '-c', `${before}; exec bash`],
        { env: this.env },
        resolve,
      );
      child.stdin?.end(this.job(program, options));
    });
    const state = await this.folders.read(KEY);
    assert.ok(state !== null);
    await this.folders.remove(KEY);
    return state;
  }
}
