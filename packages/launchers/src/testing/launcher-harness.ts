import { pino } from 'pino';
import { Launcher } from '../launcher/launcher.js';
import { loadWorkerSettings } from '@longshore/worker/settings/load-settings';
import { Worker } from '@longshore/worker/worker';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import { FakeCluster, FakeEngine } from './fake-cluster.js';
import { FakeService, type FakeRun } from '@longshore/worker/testing/fake-service';

/** One process of a launcher. */
export interface LauncherProcess {
  readonly worker: Worker;
  readonly engine: FakeEngine;
  /** Null until it has ended. */
  exitCode(): number | null;
  /** As `kill -9`: none of its requests reaches service or cluster any more. */
  kill(): void;
}

/** A cluster, a service and the clock of all launchers. */
export class LauncherHarness {
  readonly clock = new FakeClock();
  readonly service = new FakeService(this.clock);
  readonly cluster = new FakeCluster();

  /** Starts a process and waits for its first heartbeat. */
  async start(env: NodeJS.ProcessEnv = {}, workerId = 'launcher-1'): Promise<LauncherProcess> {
    const { clock, service, cluster } = this;
    const settings = loadWorkerSettings([], {
      SERVICE_API_KEY: 'key',
      SERVICE_WORKER_ID: workerId,
      SERVICE_WORKER_RUNTIME: 'kubernetes',
      ...env,
    });
    const engine = new FakeEngine(cluster, workerId);
    await engine.open();
    let isDead = false;
    let code: number | null = null;
    const dies = <T extends object>(target: T): T =>
      new Proxy(target, {
        get: (object, name) => {
          const value: unknown = Reflect.get(object, name);
          if (typeof value !== 'function') return value;
          return (...given: unknown[]): unknown =>
            isDead && name !== 'list' && name !== 'capacity'
              ? new Promise(() => undefined)
              : Reflect.apply(value, object, given);
        },
      });
    const living = dies(engine);
    const worker = new Worker({
      settings,
      workerId,
      api: dies(service),
      createExecutor: (host) => new Launcher(host, living, settings),
      clock,
      logger: pino({ level: 'silent' }),
      random: () => 0.5,
      tracing: null,
    });
    const before = service.callsOf('heartbeat').length;
    void worker.run().then((exitCode) => {
      code = exitCode;
      return code;
    });
    await clock.until('the first heartbeat', () => service.callsOf('heartbeat').length > before, 20);
    return {
      worker,
      engine,
      exitCode: () => code,
      kill: () => {
        isDead = true;
        void engine.close();
      },
    };
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

  untilState(run: FakeRun, state: string): Promise<void> {
    return this.clock.until(`run is ${state}`, () => run.state === state, 20);
  }

  /** Waits until the cluster holds no job. */
  untilEmpty(): Promise<void> {
    return this.clock.until('no job is left', () => this.cluster.jobs.size === 0, 20);
  }
}
