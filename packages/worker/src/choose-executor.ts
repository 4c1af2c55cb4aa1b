import type { Logger } from 'pino';
import { detectResources, limitResources } from './claims/resources.js';
import { SYSTEM_CLOCK } from './clock.js';
import type { Executor, ExecutorHost } from './execution/executor.js';
import type { WorkerIdentity } from './identity/worker-identity.js';
import { Launcher } from './launcher/launcher.js';
import { openEngine } from './launcher/open-engine.js';
import type { WorkerSettings } from './settings/load-settings.js';
import { LocalExecutor } from './local/local-executor.js';
import { chooseRuntime } from './runtime/choose-runtime.js';

export interface ChosenExecutor {
  readonly create: (host: ExecutorHost) => Executor;
  /** Ends connections; what is being executed goes on. */
  readonly close: () => Promise<void>;
}

/**
 * What executes runs by SERVICE_WORKER_RUNTIME: an engine that is open, or this machine.
 * @param signal aborted when the worker shuts down
 * @returns null when the signal was aborted before the engine answered
 * @throws SettingsError, or an Error fit for the operator, when it cannot be used
 */
export async function chooseExecutor(
  settings: WorkerSettings,
  { workerId, instance }: WorkerIdentity,
  { env, logger, signal }: { env: NodeJS.ProcessEnv; logger: Logger; signal: AbortSignal },
): Promise<ChosenExecutor | null> {
  if (settings.engine === null) {
    const runtime = await chooseRuntime({ ...settings, workerId, instance, env, log: logger });
    const resources = limitResources(await detectResources(), settings);
    logger.info({ runtime: runtime.name, resources }, 'runs are executed on this machine');
    const { maxRuns } = settings;
    return {
      create: (host) => new LocalExecutor(host, { runtime, resources, maxRuns }),
      close: async () => undefined,
    };
  }
  const choice = { engine: settings.engine, settings, workerId, env, log: logger };
  const engine = await openEngine(choice, SYSTEM_CLOCK, signal);
  if (engine === null) return null;
  logger.info({ engine: engine.name, resources: engine.capacity() }, 'runs are submitted to a cluster');
  return { create: (host) => new Launcher(host, engine, settings), close: () => engine.close() };
}
