import assert from 'node:assert/strict';
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, openSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { closeSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { processStamp } from '@longshore/worker/runtime/process/process-table';
import { signalProcess } from '../programs/child-processes.js';
import { freePort } from '../programs/free-port.js';

const PREFIX = 'longshore-slurm-';
const READY_MS = 120_000;

/** The controller stores changes after so many milliseconds at the latest. */
const SAVE_MS = 6_000;
const PATH = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin:/usr/bin:/bin`;
const PROGRAMS = ['munged', 'slurmctld', 'slurmd', 'sbatch', 'squeue', 'ch-run', 'runc'];

/** Processors that each node claims to have; jobs are cheap, so there are more than the machine has. */
export const NODE_CPUS = 16;
/** Memory that each node claims to have, in MB. */
const NODE_RAM_MB = 4000;
/** The nodes; the second one alone has the feature `special`. */
const NODES = ['one', 'two'] as const;

export type NodeName = (typeof NODES)[number];

const run = promisify(execFile);

/** Why tests with a real Slurm are skipped; false: they run, and must run with CI=true or LONGSHORE_REQUIRE_ENGINE=1. */
export function skipWithoutSlurm(): string | false {
  const missing = PROGRAMS.filter(
    (name) => !PATH.split(':').some((folder) => existsSync(join(folder, name))),
  );
  const reason =
    missing.length > 0
      ? `no Slurm: ${missing.join(', ')} not installed (see .ci/install-test-tools.sh)`
      : process.getuid?.() === 0
        ? false
        : 'no Slurm: its daemons need root';
  const isRequired = process.env['CI'] === 'true' || process.env['LONGSHORE_REQUIRE_ENGINE'] === '1';
  if (reason !== false && isRequired) throw new Error(reason);
  return reason;
}

/**
 * A real Slurm of this machine's packages: munge, a controller and two nodes on this machine, with all files in one
 * temporary folder.
 */
export class SlurmCluster {
  /** Environment of Slurm's commands. */
  readonly env: Readonly<Record<string, string>>;
  private controller: ChildProcess | null = null;
  private munge: ChildProcess | null = null;
  private readonly nodes = new Map<NodeName, ChildProcess>();

  private constructor(
    /** Folder of everything; nodes and launchers see it. */
    readonly folder: string,
  ) {
    this.env = { PATH, SLURM_CONF: join(folder, 'slurm.conf') };
  }

  /** @throws Error with the daemons' logs when Slurm does not start */
  static async start(): Promise<SlurmCluster> {
    sweepFolders();
    const cluster = new SlurmCluster(mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`)));
    writeFileSync(join(cluster.folder, 'owner'), processStamp(process.pid) ?? '');
    process.once('exit', () => endProcesses(cluster.folder));
    try {
      await cluster.configure();
      await cluster.startDaemons();
    } catch (error) {
      const logs = cluster.logs();
      await cluster.stop();
      throw new Error(`Slurm does not start: ${logs}`, { cause: error });
    }
    return cluster;
  }

  /** Output of a command of Slurm. */
  async command(name: string, ...args: readonly string[]): Promise<string> {
    const { stdout } = await run(name, [...args], { env: this.env, timeout: 120_000 });
    return stdout;
  }

  /** The jobs that have not ended, as `ID STATE NAME`. */
  async jobs(): Promise<string[]> {
    const text = await this.command('squeue', '--noheader', '--format=%i %T %j');
    return text.split('\n').filter((line) => line !== '');
  }

  /** Waits until no job is left: Slurm completes one for some moments after its end. */
  async untilNoJobs(): Promise<void> {
    await this.until('no job is left', async () => (await this.jobs()).length === 0);
  }

  /** Waits until the controller has stored what it knows of jobs now, which takes it some seconds. */
  async untilSaved(): Promise<void> {
    const sinceMs = Date.now();
    const file = join(this.folder, 'state', 'job_state');
    await this.until('the jobs are stored', () => {
      const { mtimeMs } = statSync(file);
      return Promise.resolve(mtimeMs >= sinceMs || Date.now() - sinceMs > SAVE_MS);
    });
  }

  /** SIGKILL to the controller. */
  async killController(): Promise<void> {
    await killChild(this.controller);
    this.controller = null;
  }

  /** Starts the controller with the state that the last one left. */
  async startController(): Promise<void> {
    this.controller = this.spawn('slurmctld', ['-D'], 'slurmctld');
    await this.until('the controller answers', async () => (await this.command('sinfo', '-h')) !== '');
  }

  /**
   * SIGKILL to a node's daemon and all that it started, as when the machine loses its power. The controller is told at once:
   * by itself, it would notice after SlurmdTimeout.
   */
  async loseNode(name: NodeName): Promise<void> {
    await this.killNode(name);
    await this.command('scontrol', 'update', `NodeName=${name}`, 'State=DOWN', 'Reason=lost');
  }

  private async killNode(name: NodeName): Promise<void> {
    const daemon = this.nodes.get(name) ?? null;
    this.nodes.delete(name);
    const spool = this.spool(name);
    await killChild(daemon);
    // The daemons of steps inherit the working directory.
    for (const pid of stepsOf(spool))
      for (const each of [pid, ...descendants(pid)]) signalProcess(each, 'SIGKILL');
  }

  /** Starts a node that was lost, and waits until it takes jobs. */
  async startNode(name: NodeName): Promise<void> {
    mkdirSync(this.spool(name), { recursive: true });
    this.nodes.set(name, this.spawn('slurmd', ['-D', '-N', name], `slurmd-${name}`, this.spool(name)));
    await this.until(`node ${name} takes jobs`, async () =>
      /^(?:idle|mixed|allocated)\s*$/.test(await this.command('sinfo', '-h', '-n', name, '-o', '%T')),
    );
  }

  /** Ends everything, and removes the folder. */
  async stop(): Promise<void> {
    for (const name of this.nodes.keys()) await this.killNode(name);
    await this.killController();
    await killChild(this.munge);
    endProcesses(this.folder);
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  private async configure(): Promise<void> {
    const { folder } = this;
    const [controller, ...ports] = await Promise.all([freePort(), ...NODES.map(() => freePort())]);
    const nodes = NODES.map(
      (name, index) =>
        `NodeName=${name} NodeHostname=${hostname()} NodeAddr=127.0.0.1 Port=${ports[index]} CPUs=${NODE_CPUS} ` +
        `RealMemory=${NODE_RAM_MB} Gres=gpu:a100:2 Features=${index === 0 ? 'plain' : 'special'} State=UNKNOWN`,
    );
    const lines = [
      'ClusterName=longshore',
      `SlurmctldHost=${hostname()}(127.0.0.1)`,
      `SlurmctldPort=${controller}`,
      'SlurmUser=root',
      'AuthType=auth/munge',
      `AuthInfo=socket=${join(folder, 'munge.socket')}`,
      `StateSaveLocation=${join(folder, 'state')}`,
      `SlurmdSpoolDir=${join(folder, 'spool-%n')}`,
      `SlurmctldPidFile=${join(folder, 'slurmctld.pid')}`,
      `SlurmdPidFile=${join(folder, 'slurmd-%n.pid')}`,
      'ProctrackType=proctrack/linuxproc',
      'TaskPlugin=task/none',
      'JobAcctGatherType=jobacct_gather/none',
      'SelectType=select/cons_tres',
      'SelectTypeParameters=CR_CPU_Memory',
      'DefMemPerCPU=10',
      'GresTypes=gpu',
      'SlurmdParameters=config_overrides',
      'SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0',
      'MpiDefault=none',
      'SwitchType=switch/none',
      'KillWait=2',
      // On a busy machine, nodes answer late.
      'SlurmdTimeout=300',
      'ReturnToService=2',
      ...nodes,
      'PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP',
      'PartitionName=short Nodes=ALL MaxTime=1 State=UP',
    ];
    mkdirSync(join(folder, 'state'));
    writeFileSync(join(folder, 'slurm.conf'), `${lines.join('\n')}\n`);
    writeFileSync(join(folder, 'gres.conf'), 'Name=gpu Type=a100 File=/dev/null,/dev/zero\n');
    writeFileSync(join(folder, 'munge.key'), randomBytes(128), { mode: 0o600 });
  }

  private async startDaemons(): Promise<void> {
    const at = (name: string): string => join(this.folder, name);
    const files = [
      '--key-file',
      at('munge.key'),
      '--socket',
      at('munge.socket'),
      '--pid-file',
      at('munge.pid'),
    ];
    const others = ['--log-file', at('munge.log'), '--seed-file', at('munge.seed')];
    this.munge = this.spawn('munged', ['-F', '--force', ...files, ...others], 'munged');
    await this.until('munge answers', () => Promise.resolve(existsSync(at('munge.socket'))));
    await this.startController();
    await Promise.all(NODES.map((name) => this.startNode(name)));
  }

  private spawn(program: string, args: readonly string[], log: string, cwd = this.folder): ChildProcess {
    const file = openSync(join(this.folder, `${log}.log`), 'a');
    const child = spawn(program, [...args], {
      env: this.env,
      cwd,
      stdio: ['ignore', file, file],
      detached: true,
    });
    closeSync(file);
    child.on('error', () => undefined);
    return child;
  }

  private spool(name: NodeName): string {
    return join(this.folder, `spool-${name}`);
  }

  private async until(what: string, condition: () => Promise<boolean>): Promise<void> {
    const deadline = performance.now() + READY_MS;
    while (!(await condition().catch(() => false))) {
      assert.ok(performance.now() < deadline, `waited in vain until ${what}`);
      await sleep(50);
    }
  }

  private logs(): string {
    const names = readdirSync(this.folder).filter((name) => name.endsWith('.log'));
    return names
      .map((name) => `${name}: ${readFileSync(join(this.folder, name), 'utf8').slice(-1500)}`)
      .join('\n');
  }
}

async function killChild(child: ChildProcess | null): Promise<void> {
  if (child === null || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/** Daemons of steps whose working directory is the node's spool. */
function stepsOf(spool: string): number[] {
  return pids().filter((pid) => cwdOf(pid).startsWith(spool));
}

function descendants(parent: number): number[] {
  const children = pids().filter((pid) => parentOf(pid) === parent);
  return children.flatMap((child) => [child, ...descendants(child)]);
}

/** Ends every process that belongs to a cluster's folder. */
function endProcesses(folder: string): void {
  const own = pids().filter(
    (pid) =>
      pid !== process.pid &&
      (cwdOf(pid).startsWith(folder) || environmentOf(pid).includes(`${folder}/slurm.conf`)),
  );
  for (const pid of own) for (const each of [pid, ...descendants(pid)]) signalProcess(each, 'SIGKILL');
}

/** Ends and removes clusters of tests that were killed. */
function sweepFolders(): void {
  for (const name of readdirSync(tmpdir())) {
    const [, pid] = new RegExp(`^${PREFIX}(\\d+)-`).exec(name) ?? [];
    if (pid === undefined) continue;
    const folder = join(tmpdir(), name);
    if (processStamp(Number(pid)) === readText(join(folder, 'owner'))) continue;
    endProcesses(folder);
    rmSync(folder, { recursive: true, force: true });
  }
}

function pids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

function parentOf(pid: number): number {
  const stat = readText(`/proc/${pid}/stat`);
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

function environmentOf(pid: number): string {
  return readText(`/proc/${pid}/environ`);
}

function cwdOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return '';
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
