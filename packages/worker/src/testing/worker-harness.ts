import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { pino } from 'pino';
import { loadWorkerSettings } from '../load-settings.js';
import { Worker } from '../worker.js';
import { RunFolders, type FolderContent, type Leftovers, type RunFolder } from '../execution/run-folder.js';
import type { Resources } from '../service-api/service-api.js';
import { FakeClock } from './fake-clock.js';
import { FakeRuntime, type FakeContainer } from './fake-runtime.js';
import { FakeService, type FakeRun } from './fake-service.js';

/** A worker with a fake service, runtime and clock. */
export interface WorkerHarness {
  readonly clock: FakeClock;
  readonly service: FakeService;
  readonly runtime: FakeRuntime;
  readonly worker: Worker;
  /** Lines of the worker's log. */
  readonly log: readonly string[];
  /** Starts the worker and waits for its first heartbeat. */
  start(): Promise<void>;
  /** Null until the worker has ended. */
  exitCode(): number | null;
  /** Parent of the run folders. */
  readonly root: string;
  /** Names of the existing run folders. */
  folders(): string[];
  /** Waits for the container with the index. */
  container(index?: number): Promise<FakeContainer>;
  untilState(run: FakeRun, state: string): Promise<void>;
  /** Shuts the worker down and advances the clock until it has ended. @returns the exit code */
  end(): Promise<number>;
}

/** Real folders; the clock waits for their operations. */
class TrackedFolders extends RunFolders {
  constructor(
    private readonly clock: FakeClock,
    workerId: string,
    base: string,
  ) {
    super(workerId, base);
  }

  override prepare(): Promise<Leftovers> {
    return this.clock.track(super.prepare());
  }

  override async create(content: FolderContent): Promise<RunFolder> {
    const folder = await this.clock.track(super.create(content));
    return {
      path: folder.path,
      readOutputs: () => this.clock.track(folder.readOutputs()),
      remove: () => this.clock.track(folder.remove()),
    };
  }
}

export interface HarnessOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly resources?: Partial<Resources>;
}

/** Files are removed after the tests of the file. */
export function makeHarness({ env = {}, resources = {} }: HarnessOptions = {}): WorkerHarness {
  const clock = new FakeClock();
  const service = new FakeService(clock);
  const runtime = new FakeRuntime();
  const base = mkdtempSync(join(tmpdir(), 'longshore-worker-spec-'));
  after(() => rmSync(base, { recursive: true, force: true }));
  const settings = loadWorkerSettings([], { SERVICE_API_KEY: 'key', SERVICE_WORKER_ID: 'rack/7:a', ...env });
  const folders = new TrackedFolders(clock, settings.workerId, base);
  const log: string[] = [];
  const worker = new Worker({
    settings,
    resources: { cpuCores: 4, ramMb: 8000, gpus: [], ...resources },
    api: service,
    runtime,
    folders,
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
    start: async () => {
      void worker.run().then((exitCode) => {
        code = exitCode;
        return code;
      });
      await clock.until('the first heartbeat', () => service.calls.length > 0);
    },
    exitCode: () => code,
    root: folders.root,
    folders: () => (existsSync(folders.root) ? readdirSync(folders.root) : []),
    container: async (index = 0) => {
      await clock.until(`container ${index} runs`, () => runtime.containers.length > index, 20);
      const container = runtime.containers[index];
      if (container === undefined) throw new Error('no container');
      return container;
    },
    untilState: (run, state) => clock.until(`run is ${state}`, () => run.state === state, 20),
    end: async () => {
      worker.shutDown();
      await clock.until('the worker ends', () => code !== null, 50);
      return code ?? -1;
    },
  };
  return harness;
}
