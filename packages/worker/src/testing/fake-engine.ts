import type { JsonObject } from '@longshore/common/json/json-value';
import type { Engine, EngineJob, JobKey, JobSpec, JobStatus } from '../launcher/engine.js';
import { JobTable, nameOf } from '../launcher/job-table.js';
import type { LogLine } from '../runtime/runtime.js';
import type { Capability, Resources } from '../service-api/service-api.js';

/** A cluster in memory. Its jobs outlive the launchers that submitted them. */
export class FakeCluster {
  readonly table = new JobTable();
  /** Jobs in the order of their submission. */
  readonly submitted: EngineJob[] = [];
  /** Names of removed jobs. */
  readonly removed: string[] = [];
  readonly outputs = new Map<string, JsonObject>();
  lines: readonly string[] = [];
  resources: Resources = { cpuCores: 8, ramMb: 16_000, gpus: [] };

  /** Changes the status of a job. */
  set(key: JobKey, status: JobStatus): void {
    const job = this.table.find(key);
    if (job !== null) this.table.put({ ...job, status });
  }
}

/** The engine of one launcher in a fake cluster. */
export class FakeEngine implements Engine {
  readonly name = 'kubernetes';
  readonly capabilities: readonly Capability[] = ['env', 'command', 'secrets', 'registry'];
  readonly tags = [];

  constructor(
    private readonly cluster: FakeCluster,
    private readonly workerId: string,
  ) {}

  async open(): Promise<void> {}

  async close(): Promise<void> {}

  list(): readonly EngineJob[] {
    return this.cluster.table.list();
  }

  nextStatus(key: JobKey, known: JobStatus | null, signal: AbortSignal): Promise<EngineJob | null> {
    return this.cluster.table.nextStatus(key, known, signal);
  }

  async submit({ runId, attempt }: JobSpec): Promise<EngineJob> {
    const { table, submitted } = this.cluster;
    const existing = table.find({ runId, attempt });
    if (existing !== null) return existing;
    const engineId = `uid-${submitted.length + 1}`;
    const status = { kind: 'pending', reason: 'Unschedulable' } as const;
    const job = { runId, attempt, engineId, workerId: this.workerId, status };
    submitted.push(job);
    table.put(job);
    return job;
  }

  async *readLines(): AsyncIterable<LogLine> {
    for (const text of this.cluster.lines) yield { stream: 'stdout', text };
  }

  async readOutputs(job: EngineJob): Promise<JsonObject | undefined> {
    return this.cluster.outputs.get(nameOf(job));
  }

  async remove(key: JobKey): Promise<void> {
    const { table, removed } = this.cluster;
    if (table.find(key) !== null) removed.push(nameOf(key));
    table.delete(key);
  }

  capacity(): Resources {
    return this.cluster.resources;
  }

  async probe(): Promise<void> {}
}
