import { isDeepStrictEqual } from 'node:util';
import { CAPABILITIES } from '@longshore/client/constants';
import { type ContainerTimes, EngineFault, type LogLine } from '@longshore/worker/runtime/runtime';
import { jsonText } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
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
import { JobTable, nameOf } from '../launcher/job-table.js';
import type { Collected, GetUploads } from '@longshore/worker/artifacts/collect';
import type { RunArtifacts } from '@longshore/worker/service-api/run-artifacts';
import type { Resources } from '@longshore/worker/service-api/service-api';

/** A job of a fake cluster, with what its container does. */
export interface FakeJob {
  readonly spec: JobSpec;
  readonly workerId: string;
  readonly engineId: string;
  status: JobStatus;
  times?: ContainerTimes;
  readonly lines: string[];
  outputs: JsonObject | undefined;
  /** Times that the log was read. */
  readings: number;
  /** Whether its node gives neither log nor outputs. */
  isSilent: boolean;
  /** Values of secrets that the cluster has kept; null: it has lost them. */
  keptSecrets: Readonly<Record<string, string | Buffer>> | null;
  /** What it has kept for the next launcher; null: it has lost it. */
  keptMemo: JobMemo | null;
}

/** The state of a cluster, which survives its launchers. Tests control its jobs and inject faults. */
export class FakeCluster {
  readonly jobs = new Map<string, FakeJob>();
  /** Names of submitted jobs, doubles left out. */
  readonly submitted: string[] = [];
  /** Names of removed jobs. */
  readonly removals: string[] = [];
  /** Names of jobs whose grace was cut short. */
  readonly killed: string[] = [];
  /** Called for each of these. */
  onKill: (key: JobKey) => void = () => undefined;
  /** Whether the API does not answer: lists stay as they are. */
  isDown = false;
  /** Called for each submission; throws to refuse it. */
  onSubmit: (spec: JobSpec) => void = () => undefined;
  /** Called after a job was submitted; throws as if the answer was lost. */
  onSubmitted: (spec: JobSpec) => void | Promise<void> = () => undefined;
  /** Resolves when the container of a removed job has ended. */
  onRemove: (key: JobKey) => Promise<void> = async () => undefined;
  /** What its jobs share with launchers; null: nothing. */
  files: EngineFiles | null = null;
  /** What the storing of the files of an ended job does. */
  onStore: (key: JobKey, getUploads: GetUploads) => Promise<Collected> = async () => ({
    stored: [],
    missing: [],
  });
  /** Files of which jobs got fresh URLs. */
  readonly renewed: RunArtifacts[] = [];
  resources: Resources = { cpuCores: 8, ramMb: 16_000, gpus: [] };
  private readonly watchers = new Set<() => void>();
  private created = 0;

  job(runId: string, attempt = 1): FakeJob {
    const job = this.jobs.get(nameOf({ runId, attempt }));
    if (job === undefined) throw new Error(`no job of ${runId}/${attempt}`);
    return job;
  }

  add(spec: JobSpec, workerId: string): FakeJob {
    this.created += 1;
    const status: JobStatus = { kind: 'pending', reason: '' };
    const secretFiles = spec.files.flatMap(({ path, content, isSecret }) =>
      isSecret ? [[path, content]] : [],
    );
    const job = {
      spec,
      workerId,
      engineId: `job-${this.created}`,
      status,
      lines: [],
      outputs: undefined,
      readings: 0,
      isSilent: false,
      keptSecrets: { ...spec.secrets, ...Object.fromEntries(secretFiles) },
      keptMemo: spec.memo,
    };
    this.jobs.set(nameOf(spec), job);
    this.submitted.push(nameOf(spec));
    this.changed();
    return job;
  }

  set(runId: string, status: JobStatus, attempt = 1): void {
    this.job(runId, attempt).status = status;
    this.changed();
  }

  print(runId: string, ...lines: string[]): void {
    this.job(runId).lines.push(...lines);
    this.changed();
  }

  exit(runId: string, exitCode = 0, outOfMemory = false): void {
    this.set(runId, { kind: 'exited', exitCode, outOfMemory });
  }

  vanish(runId: string, attempt = 1): void {
    this.jobs.delete(nameOf({ runId, attempt }));
    this.changed();
  }

  watch(watcher: () => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** Lets the launchers see the jobs as they are, unless the API is down. */
  changed(): void {
    for (const watcher of this.watchers) watcher();
  }
}

/** The connection of one launcher to a fake cluster. */
export class FakeEngine implements Engine {
  readonly name = 'kubernetes';
  readonly capabilities = [...CAPABILITIES, 'stop_grace:3600'] as const;
  readonly tags = ['gpu-pool'];
  readonly files?: EngineFiles;
  private readonly table = new JobTable();
  private stopWatching: () => void = () => undefined;

  constructor(
    readonly cluster: FakeCluster,
    private readonly workerId: string,
  ) {
    if (cluster.files !== null) this.files = cluster.files;
  }

  async open(): Promise<void> {
    this.stopWatching = this.cluster.watch(() => this.refresh());
    this.refresh();
  }

  async close(): Promise<void> {
    this.stopWatching();
  }

  list(): readonly EngineJob[] {
    return this.table.list();
  }

  nextStatus(key: JobKey, known: JobStatus | null, signal: AbortSignal): Promise<EngineJob | null> {
    return this.table.nextStatus(key, known, signal);
  }

  async submit(spec: JobSpec): Promise<EngineJob> {
    this.check();
    this.cluster.onSubmit(spec);
    const job = this.cluster.jobs.get(nameOf(spec)) ?? this.cluster.add(spec, this.workerId);
    await this.cluster.onSubmitted(spec);
    return toListed(job);
  }

  async *readLines({ runId, attempt }: EngineJob, signal: AbortSignal): AsyncGenerator<LogLine> {
    const job = this.cluster.jobs.get(nameOf({ runId, attempt }));
    if (job === undefined) return;
    job.readings += 1;
    for (let next = 0; !signal.aborted;) {
      const text = job.isSilent ? undefined : job.lines[next];
      if (text !== undefined) {
        next += 1;
        yield { stream: 'stdout', text };
      } else if ((isFinal(job.status) && !job.isSilent) || this.cluster.jobs.get(nameOf(job.spec)) !== job) {
        return;
      } else {
        await this.untilChanged(signal);
      }
    }
  }

  async readOutputs({ runId, attempt }: EngineJob, signal: AbortSignal): Promise<Buffer | null> {
    const job = this.cluster.jobs.get(nameOf({ runId, attempt }));
    if (job === undefined) throw new EngineFault('the outputs are gone');
    while (job.isSilent) {
      await this.untilChanged(signal);
      signal.throwIfAborted();
    }
    return job.outputs === undefined ? null : Buffer.from(jsonText(job.outputs));
  }

  async readMemo(key: JobKey): Promise<JobMemo | null> {
    this.check();
    return this.cluster.jobs.get(nameOf(key))?.keptMemo ?? null;
  }

  async renewFiles(_key: JobKey, artifacts: RunArtifacts): Promise<void> {
    this.check();
    this.cluster.renewed.push(artifacts);
  }

  storeFiles(job: EngineJob, getUploads: GetUploads): Promise<Collected> {
    return this.cluster.onStore(job, getUploads);
  }

  async readSecrets(key: JobKey): Promise<Readonly<Record<string, string | Buffer>> | null> {
    this.check();
    return this.cluster.jobs.get(nameOf(key))?.keptSecrets ?? null;
  }

  async remove(key: JobKey): Promise<void> {
    this.check();
    if (!this.cluster.jobs.has(nameOf(key))) return;
    this.cluster.removals.push(nameOf(key));
    await this.cluster.onRemove(key);
    this.cluster.vanish(key.runId, key.attempt);
  }

  async kill(key: JobKey): Promise<void> {
    this.cluster.killed.push(nameOf(key));
    this.cluster.onKill(key);
  }

  capacity(): Resources {
    return this.cluster.resources;
  }

  async probe(): Promise<void> {
    this.check();
  }

  private check(): void {
    if (this.cluster.isDown) throw new EngineFault('the API server does not answer');
  }

  private refresh(): void {
    if (this.cluster.isDown) return;
    const jobs = [...this.cluster.jobs.values()].map(toListed);
    const known = this.table.list();
    if (!isDeepStrictEqual(jobs, known)) this.table.replace(jobs, () => false);
  }

  private untilChanged(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        stop();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const stop = this.cluster.watch(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }
}

function toListed({ spec: { runId, attempt }, workerId, engineId, status, times }: FakeJob): EngineJob {
  return { runId, attempt, workerId, engineId, status, ...(times && { times }) };
}
