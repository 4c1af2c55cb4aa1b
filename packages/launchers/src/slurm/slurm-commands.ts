import { execFile } from 'node:child_process';
import { SettingsError } from '@longshore/common/settings/setting';
import { clip } from '@longshore/common/json/text';
import { oneLine } from '@longshore/common/shown-text';
import { EngineFault, RunFault } from '@longshore/worker/runtime/runtime';
import { Semaphore } from '@longshore/common/semaphore';

/** Time limits of a command, in milliseconds. */
const READ_MS = 30_000;
const SUBMIT_MS = 60_000;

/** Limit of what a command may print: about 200,000 jobs. */
const MAX_OUTPUT_BYTES = 64 * 2 ** 20;
const MAX_MESSAGE_LENGTH = 1_000;

const NOT_INSTALLED = 'the command is not installed';

/** scancel ends with the last byte of Slurm's error number, here ESLURM_ALREADY_DONE (2021), and says nothing. */
const ALREADY_DONE = 'exit code 229';

/** Commands at the same time; the controller answers them one by one anyway. */
const PARALLEL = 8;

/** Variables that Slurm's commands get; none of the worker's own. */
const PASSED = ['PATH', 'HOME', 'USER', 'LOGNAME', 'TZ', 'SLURM_CONF', 'LD_LIBRARY_PATH'] as const;

/** Slurm's commands, called without a shell, with a time limit and bounded output. */
export class SlurmCommands {
  private readonly env: NodeJS.ProcessEnv;
  private readonly limiter = new Semaphore(PARALLEL);

  constructor(env: NodeJS.ProcessEnv) {
    // Others, such as SBATCH_EXCLUSIVE, would change what the commands do.
    const passed = PASSED.map((name) => [name, env[name]]);
    this.env = Object.fromEntries(passed.filter(([, value]) => value !== undefined));
  }

  /**
   * @param script text of the job script
   * @returns the id of the job
   * @throws RunFault when Slurm would never take such a job
   * @throws LimitRefusal when it may be so
   * @throws EngineFault else; the job may have been accepted
   */
  async submit(args: readonly string[], script: string): Promise<string> {
    const { problem, stdout } = await this.run('sbatch', ['--parsable', ...args], SUBMIT_MS, script);
    if (problem !== null) throw refusalOf(problem);
    const [, id] = /^(\d+)(?:;.*)?\s*$/.exec(stdout) ?? [];
    if (id === undefined) throw new EngineFault(`sbatch answered with no job id: ${toLine(stdout)}`);
    return id;
  }

  /**
   * Jobs of this user, ended ones as long as the controller keeps them (MinJobAge).
   * @param format as squeue's `--format`
   * @throws EngineFault when the controller does not answer
   */
  async listJobs(format: string): Promise<string> {
    const user = String(process.getuid?.() ?? process.env['USER'] ?? '');
    const args = ['--noheader', '--states=all', `--user=${user}`, `--format=${format}`];
    return this.answer('squeue', args);
  }

  /** One line for each node. @throws EngineFault when the controller does not answer */
  async listNodes(): Promise<string> {
    return this.answer('scontrol', ['--details', '--oneliner', 'show', 'node']);
  }

  /**
   * The partitions of the jobs.
   * @param wanted empty: the default partition
   * @throws SettingsError when there is no such partition, or Slurm's commands are not installed
   * @throws EngineFault when the controller does not answer
   */
  async findPartitions(wanted: readonly string[]): Promise<readonly string[]> {
    const { problem, stdout: listed } = await this.run(
      'sinfo',
      ['--noheader', '--all', '--format=%P'],
      READ_MS,
    );
    if (problem === NOT_INSTALLED) throw new SettingsError([`The runtime slurm needs sinfo: ${problem}`]);
    if (problem !== null) throw new EngineFault(`sinfo failed: ${problem}`);
    const names = listed.split('\n').map((line) => line.trim());
    if (wanted.length === 0) {
      return names.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1));
    }
    const known = new Set(names.map((name) => name.replace(/\*$/, '')));
    const unknown = wanted.filter((name) => !known.has(name));
    if (unknown.length === 0) return wanted;
    throw new SettingsError([
      `SERVICE_WORKER_SLURM_PARTITIONS names partitions that Slurm does not have: ${unknown.join(', ')}; ` +
        `there are ${[...known].filter((name) => name !== '').join(', ')}`,
    ]);
  }

  /** Whether Slurm finds every process of a job, whatever that has done. @throws EngineFault when the controller does not answer */
  async findsAllProcesses(): Promise<boolean> {
    return /^ProctrackType\s*=\s*proctrack\/cgroup\s*$/m.test(
      await this.answer('scontrol', ['show', 'config']),
    );
  }

  /** Ends jobs that do not run yet; others go on. @throws EngineFault when the controller does not answer */
  cancelPending(ids: readonly string[]): Promise<void> {
    return this.cancel(['--state=PENDING'], ids);
  }

  /** Sends a signal to the job scripts alone. @throws EngineFault when the controller does not answer */
  signalScripts(signal: 'TERM' | 'USR1', ids: readonly string[]): Promise<void> {
    return this.cancel([`--signal=${signal}`, '--batch'], ids);
  }

  /** Ends jobs in Slurm's own way: SIGTERM to all processes, and SIGKILL after KillWait. @throws EngineFault as above */
  cancelJobs(ids: readonly string[]): Promise<void> {
    return this.cancel([], ids);
  }

  /** SIGKILL to all processes of the jobs. @throws EngineFault when the controller does not answer */
  async killJobs(ids: readonly string[]): Promise<void> {
    await this.cancel(['--signal=KILL', '--full'], ids);
    await this.cancelJobs(ids);
  }

  private async cancel(options: readonly string[], ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const { problem } = await this.run('scancel', [...options, ...ids], READ_MS);
    if (problem === null || problem === ALREADY_DONE) return;
    if (/invalid job id|already complet|not running/i.test(problem)) return;
    throw new EngineFault(`Slurm did not cancel the job: ${problem}`);
  }

  private async answer(command: string, args: readonly string[]): Promise<string> {
    const { problem, stdout } = await this.run(command, args, READ_MS);
    if (problem !== null) throw new EngineFault(`${command} failed: ${problem}`);
    return stdout;
  }

  private run(
    command: string,
    args: readonly string[],
    timeout: number,
    input = '',
  ): Promise<{ readonly stdout: string; readonly problem: string | null }> {
    const limits = { timeout, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT_BYTES } as const;
    return this.limiter.run(
      () =>
        new Promise((resolve) => {
          const child = execFile(
            command,
            [...args],
            { ...limits, cwd: '/', env: this.env },
            (error, stdout, stderr) => {
              resolve({ stdout, problem: error === null ? null : problemOf(error, stderr, timeout) });
            },
          );
          // A command that ends without reading its input breaks the pipe; its exit code says why.
          child.stdin?.on('error', () => undefined);
          child.stdin?.end(input);
        }),
    );
  }
}

function problemOf(
  error: Error & { killed?: boolean; code?: unknown },
  stderr: string,
  timeout: number,
): string {
  if (error.code === 'ENOENT') return NOT_INSTALLED;
  if (error.killed === true) return `no answer within ${timeout / 1000} s`;
  const text = stderr.replaceAll(/^\w+: (?:error|fatal): /gm, '');
  return toLine(text) || `exit code ${String(error.code)}`;
}

/** One line of bounded length. */
function toLine(text: string): string {
  return clip(oneLine(text), MAX_MESSAGE_LENGTH);
}

/** Refusals of sbatch that a job of the same run gets from every launcher of the cluster. */
const ABOUT_THE_RUN =
  /Requested node configuration is not available|Memory specification can not be satisfied|Memory required by task is not available|CPU count per node can not be satisfied|More processors requested than permitted|Invalid generic resource|Invalid feature specification|Invalid job constraint|Unable to satisfy the requested constraint|Invalid Trackable RESource|Requested GRES option unsupported/i;

/**
 * What sbatch says of every limit of an account or a QOS. Newer versions put the limit's name before it, such as
 * `QOSMaxCpuPerJobLimit`. At a submission, Slurm compares limits of resources with the job alone, not with what others use.
 */
const LIMIT = /(?:\b(?<name>(?:QOS|Assoc|Max)\w+)\s.*)?Job violates accounting\/QOS policy/;

/** Names of limits of what a job asks for. Those of Grp..Minutes also count what was used before. */
const OF_RESOURCES = /(?:CPU|Mem|GRES|Billing)(?!\w*Minutes)|MinutesPerJob/i;

/** Names of limits of the number of jobs, and of the time limit, which is a setting of the launcher. */
const OF_ALL_RUNS = /Submit|Wall/;

/** A limit refuses the job, and Slurm does not say whether for what the job asks for or for the number of jobs. */
export class LimitRefusal extends EngineFault {}

/** @param problem what sbatch said */
export function refusalOf(problem: string): RunFault | EngineFault {
  const limit = LIMIT.exec(problem);
  const name = limit?.groups?.['name'] ?? '';
  if (ABOUT_THE_RUN.test(problem) || OF_RESOURCES.test(name))
    return new RunFault(`Slurm refused the job: ${problem}`);
  const text = `Slurm did not take the job: ${problem}`;
  return limit === null || OF_ALL_RUNS.test(name) ? new EngineFault(text) : new LimitRefusal(text);
}
