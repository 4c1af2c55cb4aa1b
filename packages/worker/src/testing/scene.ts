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

/** A worker with a service, a runtime and a clock that the test controls. */
export interface Scene {
  readonly clock: FakeClock;
  readonly service: FakeService;
  readonly runtime: FakeRuntime;
  readonly worker: Worker;
  /** What the worker logged. */
  readonly log: readonly string[];
  /** Starts the worker and waits for its first heartbeat. */
  start(): Promise<void>;
  /** The exit code once the worker has ended. */
  exitCode(): number | null;
  /** Where the folders of runs are. */
  readonly root: string;
  /** Folders of runs that exist now. */
  folders(): string[];
  /** Waits until the nth container (0-based) runs. */
  container(index?: number): Promise<FakeContainer>;
  /** Waits until the run is in the state. */
  reaches(run: FakeRun, state: string): Promise<void>;
  /** Shuts the worker down and lets time pass until it has ended. */
  end(): Promise<number>;
}

/** Real folders whose work holds the clock. */
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

/** How a scene differs from the usual one. */
export interface SceneOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly resources?: Partial<Resources>;
}

/** Sets up a scene; whatever it leaves on the disk is removed after the test file. */
export function makeScene({ env = {}, resources = {} }: SceneOptions = {}): Scene {
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
  const scene: Scene = {
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
    reaches: (run, state) => clock.until(`run is ${state}`, () => run.state === state, 20),
    end: async () => {
      worker.shutDown();
      await clock.until('the worker ends', () => code !== null, 50);
      return code ?? -1;
    },
  };
  return scene;
}
