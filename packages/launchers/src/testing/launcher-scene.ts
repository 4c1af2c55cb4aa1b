import { pino } from 'pino';
import { loadWorkerSettings } from '@longshore/worker/settings/load-settings';
import type { Engine, JobStatus } from '../launcher/engine.js';
import { Launcher } from '../launcher/launcher.js';
import type { ServiceApi } from '@longshore/worker/service-api/service-api';
import { Worker } from '@longshore/worker/worker';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import { FakeCluster, FakeEngine } from './fake-cluster.js';
import { FakeService, type FakeRun } from '@longshore/worker/testing/fake-service';
import { jobSpec } from './job-spec.js';

/** When a call of a process is cut off by its end: before the call has an effect, or before its answer. */
export type Cut = 'before' | 'after';

/** Kills a launcher at its n-th call of the service or the engine. */
export class Death {
  private readonly killed = new AbortController();
  private calls = 0;

  constructor(
    private readonly at = Infinity,
    private readonly cut: Cut = 'before',
  ) {}

  get isDead(): boolean {
    return this.killed.signal.aborted;
  }

  /** Its connections close. */
  kill(): void {
    this.killed.abort();
  }

  /** The target, whose calls never return after the death. */
  of<T extends object>(target: T, names: readonly (keyof T)[]): T {
    return new Proxy(target, {
      get: (object, name) => {
        const value: unknown = Reflect.get(object, name, object);
        if (typeof value !== 'function') return value;
        const call = (args: unknown[]): unknown => Reflect.apply(value, object, args);
        const isCounted = names.some((counted) => counted === name);
        return (...args: unknown[]) =>
          isCounted ? this.during(() => call(args.map((arg) => this.closing(arg)))) : call(args);
      },
    });
  }

  /** The argument of a call with a signal that the death aborts, too. */
  private closing(arg: unknown): unknown {
    const { signal } = this.killed;
    if (arg instanceof AbortSignal) return AbortSignal.any([arg, signal]);
    return isAbortable(arg) ? { ...arg, signal: AbortSignal.any([arg.signal, signal]) } : arg;
  }

  private async during(call: () => unknown): Promise<unknown> {
    const never = new Promise(() => undefined);
    if (this.isDead) return never;
    this.calls += 1;
    const isLast = this.calls === this.at;
    if (isLast && this.cut === 'before') {
      this.kill();
      return never;
    }
    const answer = await call();
    if (isLast) this.kill();
    return this.isDead ? never : answer;
  }
}

/** Options of a request. */
interface Abortable {
  readonly signal: AbortSignal;
}

function isAbortable(arg: unknown): arg is Abortable {
  return typeof arg === 'object' && arg !== null && 'signal' in arg && arg.signal instanceof AbortSignal;
}

const SERVICE_CALLS = [
  'heartbeat',
  'claim',
  'getRun',
  'getTimeline',
  'getSecrets',
  'postEvent',
  'putLogChunk',
] as const;
const ENGINE_CALLS = ['nextStatus', 'submit', 'readOutputs', 'readSecrets', 'remove'] as const;

/** Launchers that share a service, a cluster and a clock. */
export class LauncherScene {
  readonly clock = new FakeClock();
  readonly service = new FakeService(this.clock);
  readonly cluster = new FakeCluster();
  /** What every job prints. */
  lines: readonly string[] = [];

  start(workerId = 'k8s-1', death = new Death()): void {
    const settings = loadWorkerSettings([], {
      SERVICE_API_KEY: 'key',
      SERVICE_WORKER_ID: workerId,
      SERVICE_WORKER_RUNTIME: 'kubernetes',
    });
    const api = death.of<ServiceApi>(this.service, SERVICE_CALLS);
    const connection = new FakeEngine(this.cluster, workerId);
    void connection.open();
    const engine = death.of<Engine>(connection, ENGINE_CALLS);
    const worker = new Worker({
      settings,
      workerId,
      api,
      createExecutor: (host) => new Launcher(host, engine, settings),
      clock: this.clock,
      logger: pino({ level: 'silent' }),
      random: () => 0.5,
      tracing: null,
    });
    void worker.run();
  }

  /** A job that some process has submitted before. */
  addJob(runId: string, status: JobStatus, { workerId = 'k8s-1', attempt = 1 } = {}): void {
    this.cluster.add(jobSpec({ runId, attempt }), workerId);
    this.cluster.set(runId, status, attempt);
  }

  /** Names of the jobs that are left. */
  get jobs(): string[] {
    return [...this.cluster.jobs.keys()];
  }

  get removed(): readonly string[] {
    return this.cluster.removals;
  }

  /** What the service does after the worker timeout with a run that no heartbeat lists. */
  reclaim(run: FakeRun): void {
    run.timeline.push({ type: 'RECLAIMED', msg: '', attempt: run.attempt });
    run.state = 'PENDING';
    run.attempt += 1;
    run.workerId = null;
    this.service.wakeClaims();
  }

  /** Whether the newest heartbeat lists the run. */
  isListed({ id }: FakeRun): boolean {
    const newest = this.service.callsOf('heartbeat').at(-1)?.report;
    return newest?.runningOps.some((listed) => listed.id === id) ?? false;
  }

  /** Lets every pending job run, and then end. */
  async finishJobs(end: JobStatus): Promise<void> {
    const each = (from: JobStatus['kind'], to: JobStatus): void => {
      for (const job of this.cluster.jobs.values()) if (job.status.kind === from) job.status = to;
      this.cluster.changed();
    };
    for (const { lines } of this.cluster.jobs.values()) if (lines.length === 0) lines.push(...this.lines);
    each('pending', { kind: 'running' });
    await this.clock.pass(1000);
    each('running', end);
    await this.clock.pass(5000);
  }
}
