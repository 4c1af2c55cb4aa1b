import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Capability } from '@longshore/client/constants';
import { SettingsError } from '@longshore/common/settings/setting';
import {
  isFinal,
  type Engine,
  type EngineFiles,
  type EngineJob,
  type JobKey,
  type JobMemo,
  type JobSpec,
  type JobStatus,
} from '../launcher/engine.js';
import { splitLines } from '@longshore/worker/runtime/log-lines';
import { endedFiles } from '@longshore/worker/runtime/process/attempt-files';
import { readOutputFile } from '@longshore/worker/runtime/process/run-folders';
import {
  EngineFault,
  RunFault,
  type EndedFiles,
  type LogLine,
  type RuntimeLog,
} from '@longshore/worker/runtime/runtime';
import type { Resources } from '@longshore/worker/service-api/service-api';
import { volumeCapabilities, type OfferedVolumes } from '@longshore/worker/settings/volumes';
import { ARTIFACTS_FOLDER, attemptFiles, CONTAINER_FOLDER, LOG_FILE } from './attempt-files.js';
import { CurrentJobs } from './current-jobs.js';
import { DRAFT_MS, inFolder, JobFolders } from './job-folders.js';
import { jobScript, sbatchArguments } from './job-script.js';
import { tailLog, type LogEnd } from './log-tail.js';
import { artifactPoints } from './mounts/artifact-points.js';
import { attemptMounts, checkVolumes } from './mounts/attempt-mounts.js';
import { capacityOf, parseFree, attemptName, jobComment, jobName, parseAttemptName } from './slurm-lines.js';
import { LimitRefusal, SlurmCommands } from './slurm-commands.js';
import {
  placeProblems,
  type ContainerTool,
  type SlurmSettings,
} from '@longshore/worker/settings/slurm-settings';

/** Interval between polls of the nodes, in milliseconds. */
const NODES_MS = 30_000;

/** Interval between polls of a job that is being ended, in milliseconds. */
const END_POLL_INTERVAL_MS = 250;

/** Pause before outputs that could not be read are read again, in milliseconds. */
const OUTPUTS_RETRY_MS = 1_000;

/** How often a file is tried that cannot be read, although the shared folder can be. */
const FILE_TRIES = 60;

/** How long a job may take to end after SIGKILL, in milliseconds. */
const KILL_MS = 60_000;

/** What jobs do for a run, whatever the settings. */
const CAPABILITIES = [
  'env',
  'command',
  'secrets',
  'secrets_from',
  'cpu_millis',
] as const satisfies Capability[];

export interface SlurmEngineOptions {
  readonly settings: SlurmSettings;
  /** SERVICE_WORKER_VOLUMES. */
  readonly volumes: OfferedVolumes;
  readonly workerId: string;
  readonly deployment: string;
  readonly log: RuntimeLog;
  /** Where the files of runs come from. */
  readonly files: EngineFiles['from'];
  /** PATH, HOME, SLURM_CONF for Slurm's commands. */
  readonly env: NodeJS.ProcessEnv;
  /** Between SIGTERM and SIGKILL; default: that of `stop_grace_s`, which Slurm's jobs do not support. */
  readonly graceSeconds?: number;
  /** Whether jobs run as root; default: whether this process does. */
  readonly isRoot?: boolean;
}

/** The settings without those that may be absent for other runtimes. */
interface Place {
  readonly tool: ContainerTool;
  readonly imagesDir: string | null;
  readonly partitions: readonly string[];
}

/**
 * Executes attempts as jobs of Slurm. What a job writes into its folder, which launcher and nodes share, is
 * authoritative: the controller may restart, forget ended jobs, or be unavailable.
 */
export class SlurmEngine implements Engine {
  readonly name = 'slurm';
  readonly capabilities: readonly Capability[];
  readonly tags: readonly string[];
  readonly files: EngineFiles;
  private readonly commands: SlurmCommands;
  private readonly folders: JobFolders;
  private readonly jobs: CurrentJobs;
  private place: Place | null = null;
  private resources: Resources = { cpuCores: 0, ramMb: 0, gpus: [] };

  constructor(private readonly options: SlurmEngineOptions) {
    const { settings, volumes, deployment, env, log } = options;
    this.tags = [...settings.features.keys()];
    this.files = { from: options.files, ended: (job, signal) => this.leftFiles(job, signal) };
    const hasMounts = settings.scratchDir !== null || volumes.size > 0;
    this.capabilities = [
      ...CAPABILITIES,
      // A script of the operator makes files appear as it does mounts, if it does.
      ...(hasMounts || typeof settings.container === 'string' ? (['files', 'artifacts'] as const) : []),
      ...(settings.gpus.size > 0 ? (['gpus'] as const) : []),
      ...(settings.scratchDir === null ? [] : (['scratch'] as const)),
      ...volumeCapabilities(volumes),
    ];
    this.commands = new SlurmCommands(env);
    this.folders = new JobFolders(settings.dir ?? '/', deployment);
    this.jobs = new CurrentJobs({ commands: this.commands, folders: this.folders, deployment, log });
  }

  async open(): Promise<void> {
    const { container: tool, imagesDir, partitions } = this.options.settings;
    const { isRoot = process.getuid?.() === 0 } = this.options;
    const problems = placeProblems(this.options.settings, isRoot);
    if (tool === null || problems.length > 0) throw new SettingsError(problems);
    const hasOwnProcesses = isRoot || !(tool === 'enroot' || typeof tool === 'object');
    if (isRoot && tool !== 'runc')
      this.options.log.warn(
        {},
        'jobs run as root: what isolates runs from their nodes is the container tool alone',
      );
    await this.folders.open();
    await checkVolumes(this.options.volumes, this.folders.root, this.options.log);
    this.place = { tool, imagesDir, partitions: await this.commands.findPartitions(partitions) };
    if (!hasOwnProcesses && !(await this.commands.findsAllProcesses()))
      this.options.log.warn(
        {},
        'a process that a program leaves can outlive its job: the ProctrackType of Slurm is not proctrack/cgroup',
      );
    await this.jobs.fresh();
    await this.lookAtNodes();
    void this.jobs.repeat(this.options.settings.pollSeconds * 1000, () => this.jobs.fresh());
    void this.jobs.repeat(NODES_MS, () => this.lookAtNodes());
    void this.jobs.repeat(DRAFT_MS, () => this.folders.removeDrafts());
  }

  close(): Promise<void> {
    return this.jobs.close();
  }

  list(): readonly EngineJob[] {
    return this.jobs.table.list();
  }

  nextStatus(key: JobKey, known: JobStatus | null, signal: AbortSignal): Promise<EngineJob | null> {
    return this.jobs.table.nextStatus(key, known, signal);
  }

  async submit(spec: JobSpec): Promise<EngineJob> {
    const place = this.opened();
    const { settings, volumes, workerId, deployment } = this.options;
    if (parseAttemptName(attemptName(spec)) === null)
      throw new RunFault('The id of the run cannot be the name of a folder');
    await this.jobs.fresh();
    const known = this.jobs.table.find(spec);
    if (known !== null) return known;
    const args = sbatchArguments(spec, settings, place.partitions);
    const artifacts = artifactPoints(spec, place.tool);
    const mounts = attemptMounts(spec, place.tool, volumes, artifacts);
    const folder = this.folders.pathOf(spec);
    const isOurs = await inFolder(async () =>
      this.folders.create(spec, await attemptFiles(spec, { ...place, workerId, folder, mounts, artifacts })),
    );
    const identity = [`--job-name=${jobName(deployment, spec)}`, `--comment=${jobComment(workerId, spec)}`];
    const script = jobScript({
      root: this.folders.root,
      folder: attemptName(spec),
      tool: place.tool,
      scratchDir: settings.scratchDir,
    });
    let engineId: string;
    try {
      engineId = await this.commands.submit([...identity, ...args], script);
    } catch (error) {
      const isHopeless = error instanceof LimitRefusal && (await this.jobs.isHopeless(spec));
      const fault = isHopeless ? new RunFault(error.message) : error;
      // Another fault leaves open whether there is a job.
      if (fault instanceof RunFault && isOurs) await inFolder(() => this.folders.remove(spec));
      throw fault;
    }
    await inFolder(() => this.folders.noteJob(spec, engineId));
    const { runId, attempt } = spec;
    const pending: EngineJob = {
      runId,
      attempt,
      workerId,
      engineId,
      status: { kind: 'pending', reason: '' },
    };
    this.jobs.add(pending);
    // Another launcher may have submitted the attempt meanwhile: the list decides which job it is.
    await this.jobs.fresh();
    return this.jobs.table.find(spec) ?? pending;
  }

  async *readLines(job: EngineJob, signal: AbortSignal): AsyncIterable<LogLine> {
    const path = join(this.folders.pathOf(job), LOG_FILE);
    yield* splitLines(tailLog(path, () => this.logEnd(job), signal));
  }

  async readOutputs(job: EngineJob, signal: AbortSignal): Promise<Buffer | null> {
    for (;;) {
      signal.throwIfAborted();
      try {
        await this.checkFolder(job);
        return await readOutputFile(this.folders.root, [attemptName(job), CONTAINER_FOLDER]);
      } catch (error) {
        if (error instanceof RunFault || error instanceof EngineFault) throw error;
        // The shared folder cannot be read now.
        await sleep(OUTPUTS_RETRY_MS, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  /** The shared folder is read by looks that follow no link, so that nothing outside of the attempt is stored. */
  private leftFiles(job: EngineJob, signal: AbortSignal): EndedFiles {
    const files = endedFiles(this.folders.root, [attemptName(job), ARTIFACTS_FOLDER]);
    const untilRead = async <T>(read: () => Promise<T>): Promise<T> => {
      for (let tries = 1; ;) {
        signal.throwIfAborted();
        try {
          await this.checkFolder(job);
          return await read();
        } catch (error) {
          if (error instanceof EngineFault || tries === FILE_TRIES) throw error;
          tries += await this.folders.open().then(
            () => 1,
            () => 0,
          );
          await sleep(OUTPUTS_RETRY_MS, undefined, { signal }).catch(() => undefined);
        }
      }
    };
    return {
      open: (path) => untilRead(() => files.open(path)),
      list: async function* (folder) {
        yield* await untilRead(() => allOf(files.list(folder)));
      },
    };
  }

  /** @throws EngineFault when the folder of the job is gone */
  private async checkFolder(job: EngineJob): Promise<void> {
    if ((await this.folders.read(job)) === null)
      throw new EngineFault(`The folder of Slurm's job ${job.engineId} is gone, and its outputs with it`);
  }

  readMemo(key: JobKey): Promise<JobMemo | null> {
    return inFolder(() => this.folders.readMemo(key));
  }

  readSecrets(key: JobKey): Promise<Readonly<Record<string, string | Buffer>> | null> {
    return inFolder(() => this.folders.readSecrets(key));
  }

  async remove(key: JobKey): Promise<void> {
    await this.endJobs(key);
    await this.jobs.drop(key);
  }

  /** The grace of Slurm's jobs is short. */
  async kill(): Promise<void> {}

  capacity(): Resources {
    return this.resources;
  }

  async probe(): Promise<void> {
    await this.jobs.fresh();
    await inFolder(() => this.folders.open());
  }

  private opened(): Place {
    if (this.place === null) throw new EngineFault('Slurm is not connected yet');
    return this.place;
  }

  /**
   * Ends the jobs of the attempt, and waits until they have left Slurm: until then, what a program has started may be at work in
   * the folder.
   */
  private async endJobs(key: JobKey): Promise<void> {
    const graceMs = (this.options.graceSeconds ?? 10) * 1000;
    const startedMs = performance.now();
    let hasSignalled = false;
    let hasKilled = false;
    for (;;) {
      await this.jobs.fresh();
      const { waiting, others } = this.jobs.liveJobs(key);
      await this.commands.cancelPending(waiting);
      if (waiting.length === 0 && others.length === 0) return;
      const folder = await inFolder(() => this.folders.read(key));
      const elapsedMs = performance.now() - startedMs;
      // A script that has not begun gets no signal that it could pass on.
      if ((folder?.takenBy ?? null) === null) await this.commands.cancelJobs(others);
      // One that has written its exit record, which it does last, needs none.
      else if (!hasSignalled && (folder?.exit ?? null) === null) {
        await this.commands.signalScripts('TERM', others);
        hasSignalled = true;
      }
      if (elapsedMs >= graceMs) {
        // The first signal lets the script end its container and clean up on the node.
        if (!hasKilled) await this.commands.signalScripts('USR1', others);
        else await this.commands.killJobs(others);
        hasKilled = true;
      }
      if (elapsedMs > graceMs + KILL_MS)
        throw new EngineFault(`Slurm's job ${[...waiting, ...others].join(', ')} does not end`);
      await sleep(hasKilled ? 4 * END_POLL_INTERVAL_MS : END_POLL_INTERVAL_MS);
    }
  }

  private async logEnd(job: EngineJob): Promise<LogEnd> {
    // The list of each poll has read the folder already.
    const listed = this.jobs.table.find(job);
    if (listed !== null && !isFinal(listed.status)) return null;
    const folder = await this.folders.read(job).catch(() => undefined);
    if (folder === null) return { bytes: null };
    if (folder === undefined) return null;
    if (folder.exit !== null) return { bytes: folder.exit.logBytes };
    return listed === null ? null : { bytes: null };
  }

  private async lookAtNodes(): Promise<void> {
    const { workerId, settings } = this.options;
    const { partitions } = this.opened();
    const [nodes] = await Promise.all([this.commands.listNodes(), this.jobs.fresh()]);
    this.resources = capacityOf(parseFree(nodes, partitions), this.jobs.jobsOf(workerId), settings.gpus);
  }
}

async function allOf(paths: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const path of paths) all.push(path);
  return all;
}
