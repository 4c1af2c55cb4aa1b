import type { Capability } from '@longshore/client/constants';
import { pino } from 'pino';
import { loadWorkerSettings } from '../settings/worker-settings.js';
import { fetchAddresses } from '../artifacts/download.js';
import { FileCache } from '../artifacts/file-cache.js';
import type { GpuReading } from '../claims/resources.js';
import { LocalExecutor } from '../local/local-executor.js';
import { Worker } from '../worker.js';
import type { Resources } from '../service-api/service-api.js';
import { FakeClock } from './fake-clock.js';
import { FakeRuntime, type FakeContainer } from './fake-runtime.js';
import type { FakeRun } from './fake-run.js';
import { FakeService } from './fake-service.js';

/** A worker with a fake service, runtime and clock. */
export interface WorkerHarness {
  readonly clock: FakeClock;
  readonly service: FakeService;
  readonly runtime: FakeRuntime;
  /** What nvidia-smi says from now on. */
  readonly gpus: { reading: GpuReading };
  readonly worker: Worker;
  /** Lines of the worker's log. */
  readonly log: readonly string[];
  /** Starts the worker and waits for its first heartbeat. */
  start(): Promise<void>;
  /** Null until the worker has ended. */
  exitCode(): number | null;
  /** Waits for the container with the index. */
  container(index?: number): Promise<FakeContainer>;
  untilState(run: FakeRun, state: string): Promise<void>;
  /** Starts with a run, and waits for its state. */
  execute(state: string, fields?: Partial<FakeRun>): Promise<FakeRun>;
  /** Shuts the worker down and advances the clock until it has ended. @returns the exit code */
  end(): Promise<number>;
}

export interface HarnessOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly resources?: Partial<Resources>;
  /** Of its runtime; default: all. */
  readonly capabilities?: readonly Capability[];
  /** Whether an earlier process had its id; default: no. */
  readonly isSuccessor?: boolean;
  /** For files that are fetched. */
  readonly filesFolder?: string;
}

export function makeHarness({
  env = {},
  resources = {},
  capabilities,
  isSuccessor = false,
  filesFolder = '/nonexistent',
}: HarnessOptions = {}): WorkerHarness {
  const clock = new FakeClock();
  const service = new FakeService(clock);
  const runtime = new FakeRuntime(capabilities);
  const settings = loadWorkerSettings([], { SERVICE_API_KEY: 'key', ...env });
  const log: string[] = [];
  const gpus: WorkerHarness['gpus'] = {
    reading: { isInstalled: true, gpus: resources.gpus ?? [], problem: null },
  };
  const worker = new Worker({
    settings,
    workerId: 'rack/7:a',
    api: service,
    createExecutor: (host) =>
      new LocalExecutor(host, {
        runtime,
        resources: { cpuCores: 4, ramMb: 8000, gpus: [], ...resources },
        readGpus: () => Promise.resolve(gpus.reading),
        gpuIds: settings.gpuIds,
        needsRamLimit: settings.needsRamLimit,
        maxRuns: settings.maxRuns,
        isSuccessor,
        files: { cache: new FileCache(filesFolder, settings.maxCacheBytes), addresses: fetchAddresses(null) },
      }),
    clock,
    logger: pino({ level: settings.logLevel }, { write: (line: string) => void log.push(line) }),
    random: () => 0.5,
    tracing: null,
  });
  let code: number | null = null;
  const harness: WorkerHarness = {
    clock,
    service,
    runtime,
    worker,
    log,
    gpus,
    start: async () => {
      void worker.run().then((exitCode) => {
        code = exitCode;
        return code;
      });
      await clock.until('the first heartbeat', () => service.calls.length > 0);
    },
    exitCode: () => code,
    container: async (index = 0) => {
      await clock.until(`container ${index} runs`, () => runtime.containers.length > index, 20);
      const container = runtime.containers[index];
      if (container === undefined) throw new Error('no container');
      return container;
    },
    untilState: (run, state) => clock.until(`run is ${state}`, () => run.state === state, 20),
    execute: async (state, fields) => {
      const run = service.add('run-1', fields);
      await harness.start();
      await harness.untilState(run, state);
      return run;
    },
    end: async () => {
      worker.shutDown();
      await clock.until('the worker ends', () => code !== null, 50);
      return code ?? -1;
    },
  };
  return harness;
}

interface StartedRun extends Pick<WorkerHarness, 'clock' | 'service' | 'runtime' | 'worker' | 'log'> {
  readonly harness: WorkerHarness;
  readonly run: FakeRun;
  readonly container: FakeContainer;
}

/** A worker with a run in its container. */
export async function startedRun(options?: HarnessOptions, fields?: Partial<FakeRun>): Promise<StartedRun> {
  const harness = makeHarness(options);
  const run = harness.service.add('run-1', fields);
  await harness.start();
  const container = await harness.container();
  await harness.untilState(run, 'RUNNING');
  return { ...harness, harness, run, container };
}
