import { join } from 'node:path';
import type { Logger } from 'pino';
import { fetchAddresses, type FileParts } from './artifacts/download.js';
import { FileCache } from './artifacts/file-cache.js';
import { type GpuReading, detectResources, limitResources, readGpus } from './claims/resources.js';
import type { Executor, ExecutorHost } from './execution/executor.js';
import { fileNameOf, type TakenIdentity } from './process/worker-identity.js';
import { LocalExecutor } from './local/local-executor.js';
import { chooseRuntime } from './runtime/choose-runtime.js';
import type { EngineSettings, WorkerSettings } from './settings/worker-settings.js';

/** In a constant, because the compiler would look for the types of a package that is compiled after this one. */
const LAUNCHERS = '@longshore/launchers/open-launcher';

/** The reading of a worker that offers none. */
const NO_GPUS: GpuReading = { isInstalled: false, gpus: [], problem: null };

/** What the executor of a worker is made from. */
export interface ExecutorChoice extends TakenIdentity {
  readonly settings: WorkerSettings;
  readonly env: NodeJS.ProcessEnv;
  readonly logger: Logger;
  /** Aborted when the worker shuts down. */
  readonly signal: AbortSignal;
}

/** What an engine of jobs is opened with. */
export interface EngineChoice extends ExecutorChoice {
  /** Where the files of runs come from, for an engine whose jobs do not fetch them. Its cache is not open. */
  readonly files: FileParts;
}

export interface ChosenExecutor {
  readonly create: (host: ExecutorHost) => Executor;
  /** Ends connections; what is being executed goes on. */
  readonly close: () => Promise<void>;
}

/**
 * Opens an engine to which runs are submitted.
 * @returns null when the signal was aborted before the engine answered
 * @throws SettingsError when a setting is wrong or a permission is missing
 */
export type OpenLauncher = (engine: EngineSettings, choice: EngineChoice) => Promise<ChosenExecutor | null>;

/**
 * What executes runs by SERVICE_WORKER_RUNTIME: an engine that is open, or this machine. The package of
 * launchers is loaded only for an engine.
 * @returns null when the signal was aborted before the engine answered
 * @throws SettingsError, or an Error fit for the operator, when it cannot be used
 */
export async function chooseExecutor(choice: ExecutorChoice): Promise<ChosenExecutor | null> {
  const { settings, workerId, instance, isSuccessor, stateFolder, env, logger } = choice;
  const cache = new FileCache(join(stateFolder, 'files', fileNameOf(workerId)), settings.maxCacheBytes);
  const files = { cache, addresses: fetchAddresses(settings.fetchNetworks) };
  if (settings.engine !== null) {
    const { openLauncher }: { openLauncher: OpenLauncher } = await import(LAUNCHERS);
    return await openLauncher(settings.engine, { ...choice, files });
  }
  const runtime = await chooseRuntime({ ...settings, workerId, instance, env, log: logger });
  const { gpuIds } = settings;
  const reading = gpuIds?.length === 0 ? NO_GPUS : await readGpus();
  const resources = limitResources(await detectResources(reading), settings, reading.problem);
  logger.info({ runtime: runtime.name, resources }, 'runs are executed on this machine');
  const { maxRuns, needsRamLimit } = settings;
  const readAgain = gpuIds?.length === 0 ? () => Promise.resolve(NO_GPUS) : readGpus;
  await cache.open();
  const options = {
    runtime,
    resources,
    readGpus: readAgain,
    gpuIds,
    needsRamLimit,
    maxRuns,
    isSuccessor,
    files,
  };
  return {
    create: (host) => new LocalExecutor(host, options),
    close: async () => undefined,
  };
}
