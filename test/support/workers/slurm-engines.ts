import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { EngineJob, JobSpec, JobStatus } from '@longshore/launchers/launcher/engine';
import { SlurmEngine } from '@longshore/launchers/slurm/slurm.engine';
import { jobSpec } from '@longshore/launchers/testing/job-spec';
import { fetchAddresses } from '@longshore/worker/artifacts/download';
import { FileCache } from '@longshore/worker/artifacts/file-cache';
import { NO_VOLUMES, parseVolumes } from '@longshore/worker/settings/volumes';
import { readSettings } from '@longshore/worker/settings/setting-table';
import { SLURM_SETTINGS } from '@longshore/worker/settings/slurm-settings';
import { MemoryLog } from '@longshore/worker/testing/container-spec';
import { SlurmCluster } from './slurm-cluster.js';

interface EngineChoice {
  readonly env?: Readonly<Record<string, string>>;
  /** SERVICE_WORKER_VOLUMES. */
  readonly volumes?: string;
  readonly workerId?: string;
  readonly graceSeconds?: number;
}

/** A Slurm, and engines of launchers on it without a service. */
export class SlurmEngines {
  private readonly opened: SlurmEngine[] = [];
  private count = 0;

  private constructor(
    readonly cluster: SlurmCluster,
    /** Folder of the jobs. */
    readonly shared: string,
  ) {}

  static async start(): Promise<SlurmEngines> {
    const cluster = await SlurmCluster.start();
    const shared = join(cluster.folder, 'shared');
    mkdirSync(shared);
    return new SlurmEngines(cluster, shared);
  }

  async open(tool: string, choice: EngineChoice = {}): Promise<SlurmEngine> {
    const { env = {}, volumes, workerId = 'launcher-1', graceSeconds = 10 } = choice;
    const settings = readSettings(SLURM_SETTINGS, {
      SERVICE_WORKER_SLURM_DIR: this.shared,
      SERVICE_WORKER_SLURM_CONTAINER: tool,
      SERVICE_WORKER_SLURM_IMAGES: join(this.cluster.folder, 'images'),
      SERVICE_WORKER_SLURM_POLL: '0.3',
      ...env,
    });
    const offered = volumes === undefined ? NO_VOLUMES : parseVolumes(volumes);
    assert.ok(offered !== undefined, volumes);
    const engine = new SlurmEngine({
      settings,
      volumes: offered,
      workerId,
      deployment: 'test',
      log: new MemoryLog(),
      env: this.cluster.env,
      files: { cache: new FileCache(join(this.cluster.folder, 'cache'), 0), addresses: fetchAddresses(null) },
      graceSeconds,
      // The tests do, and charliecloud for root is refused.
      isRoot: false,
    });
    await engine.open();
    this.opened.push(engine);
    return engine;
  }

  /** The first attempt of the next run, `run-N`. */
  spec(fields: Partial<JobSpec> = {}): JobSpec {
    this.count += 1;
    return jobSpec({
      runId: `run-${this.count}`,
      attempt: 1,
      image: 'registry.test/team/tool:1',
      ...fields,
    });
  }

  /** Executes an attempt to its end, and removes it. */
  async end(
    engine: SlurmEngine,
    fields: Partial<JobSpec>,
  ): Promise<{ status: JobStatus; lines: readonly string[] }> {
    const job = await engine.submit(this.spec(fields));
    const { status } = await untilKind(engine, job, 'exited', 'failed');
    const lines = await linesOf(engine, job);
    await engine.remove(job);
    return { status, lines };
  }

  /** What an attempt prints that ends with 0. */
  async printed(engine: SlurmEngine, fields: Partial<JobSpec>): Promise<readonly string[]> {
    const { status, lines } = await this.end(engine, fields);
    const succeeded = { kind: 'exited', exitCode: 0, outOfMemory: false };
    assert.deepEqual(status, succeeded, JSON.stringify([status, lines]));
    return lines;
  }

  /** Ends all jobs and engines, and asserts that the shared folder has nothing of them. */
  async clear(): Promise<void> {
    const [first] = this.opened;
    for (const job of first?.list() ?? []) await first?.remove(job);
    for (const engine of this.opened.splice(0)) await engine.close();
    await this.cluster.untilNoJobs();
    const root = join(this.shared, 'test');
    assert.deepEqual(existsSync(root) ? readdirSync(root) : [], [], 'no folder is left');
  }

  stop(): Promise<void> {
    return this.cluster.stop();
  }
}

export async function untilKind(
  engine: SlurmEngine,
  job: EngineJob,
  ...kinds: JobStatus['kind'][]
): Promise<EngineJob> {
  let known: JobStatus | null = null;
  for (;;) {
    const next = await engine.nextStatus(job, known, AbortSignal.timeout(60_000));
    assert.ok(next !== null, 'the engine has the job');
    if (kinds.includes(next.status.kind)) return next;
    known = next.status;
  }
}

export async function linesOf(engine: SlurmEngine, job: EngineJob): Promise<string[]> {
  const lines: string[] = [];
  for await (const { text } of engine.readLines(job, new AbortController().signal)) lines.push(text);
  return lines;
}
