import { pino } from 'pino';
import type { Engine, JobStatus } from '../launcher/engine.js';
import { Launcher } from '../launcher/launcher.js';
import type { ServiceApi } from '@longshore/worker/service-api/service-api';
import { loadWorkerSettings } from '@longshore/worker/settings/worker-settings';
import { Worker } from '@longshore/worker/worker';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import { FakeCluster, FakeEngine } from './fake-cluster.js';
import type { FakeRun } from '@longshore/worker/testing/fake-run';
import { FakeService } from '@longshore/worker/testing/fake-service';
import { jobSpec } from './job-spec.js';

/** When a call of a process is cut off by its end: before the call has an effect, or before its answer. */
export type Cut = 'before' | 'after';

/** Kills a launcher at its n-th call of the service or the engine, or when told. */
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

/** One process of a launcher. */
export interface LauncherProcess {
  readonly worker: Worker;
  /** Null until it has ended. */
  exitCode(): number | null;
  /** As `kill -9`: none of its requests reaches service or cluster any more. */
  kill(): void;
}

interface LaunchOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly workerId?: string;
  readonly death?: Death;
}

/** A cluster, a service and the clock of all launchers. */
export class LauncherHarness {
  readonly clock = new FakeClock();
  readonly service = new FakeService(this.clock);
  readonly cluster = new FakeCluster();

  /** Starts a process. */
  launch({ env = {}, workerId = 'launcher-1', death = new Death() }: LaunchOptions = {}): LauncherProcess {
    const settings = loadWorkerSettings([], {
      SERVICE_API_KEY: 'key',
      SERVICE_WORKER_ID: workerId,
      SERVICE_WORKER_RUNTIME: 'kubernetes',
      ...env,
    });
    const engine = new FakeEngine(this.cluster, workerId);
    void engine.open();
    const mortal = death.of<Engine>(engine, ENGINE_CALLS);
    let code: number | null = null;
    const worker = new Worker({
      settings,
      workerId,
      api: death.of<ServiceApi>(this.service, SERVICE_CALLS),
      createExecutor: (host) => new Launcher(host, mortal, settings),
      clock: this.clock,
      logger: pino({ level: 'silent' }),
      random: () => 0.5,
      tracing: null,
    });
    void worker.run().then((exitCode) => {
      code = exitCode;
      return code;
    });
    return { worker, exitCode: () => code, kill: () => death.kill() };
  }

  /** Starts a process and waits for its first heartbeat. */
  async start(options?: LaunchOptions): Promise<LauncherProcess> {
    const heartbeats = () => this.service.callsOf('heartbeat').length;
    const before = heartbeats();
    const launcher = this.launch(options);
    await this.clock.until('the first heartbeat', () => heartbeats() > before, 20);
    return launcher;
  }

  async end(launcher: LauncherProcess): Promise<number> {
    launcher.worker.shutDown();
    await this.clock.until('the launcher ends', () => launcher.exitCode() !== null, 50);
    return launcher.exitCode() ?? -1;
  }

  untilSubmitted(runId: string, attempt = 1): Promise<void> {
    const isThere = () => this.cluster.jobs.has(`${runId}/${attempt}`);
    return this.clock.until(`the job of ${runId} is submitted`, isThere, 20);
  }

  /** Waits until the job of the run is submitted, and lets it run. */
  async untilRunning(run: FakeRun): Promise<void> {
    await this.untilSubmitted(run.id);
    this.cluster.set(run.id, { kind: 'running' });
    await this.untilState(run, 'RUNNING');
  }

  untilState(run: FakeRun, state: string): Promise<void> {
    return this.clock.until(`run is ${state}`, () => run.state === state, 20);
  }

  /** Waits until the cluster holds no job. */
  untilEmpty(): Promise<void> {
    return this.clock.until('no job is left', () => this.cluster.jobs.size === 0, 20);
  }

  /** A job that some process has submitted before. */
  addJob(runId: string, status: JobStatus, { workerId = 'launcher-1', attempt = 1 } = {}): void {
    this.cluster.add(jobSpec({ runId, attempt }), workerId);
    this.cluster.set(runId, status, attempt);
  }

  /** Ids of the runs that the newest heartbeat lists. */
  listed(): string[] {
    const newest = this.service.callsOf('heartbeat').at(-1)?.report;
    return newest?.runningOps.map(({ id }) => id) ?? [];
  }
}

/** A launcher that has submitted the job of a run. */
interface Scene {
  readonly harness: LauncherHarness;
  readonly clock: FakeClock;
  readonly service: FakeService;
  readonly cluster: FakeCluster;
  readonly run: FakeRun;
  readonly launcher: LauncherProcess;
}

export async function submitted(fields?: Partial<FakeRun>): Promise<Scene> {
  const harness = new LauncherHarness();
  const { clock, cluster, service } = harness;
  const run = service.add('run-1', fields);
  const launcher = await harness.start();
  await harness.untilSubmitted('run-1');
  return { harness, clock, service, cluster, run, launcher };
}

/** A launcher whose job runs. */
export async function running(fields?: Partial<FakeRun>): Promise<Scene> {
  const scene = await submitted(fields);
  await scene.harness.untilRunning(scene.run);
  return scene;
}
