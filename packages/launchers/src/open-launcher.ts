import { Backoff } from '@longshore/common/backoff';
import type { EngineChoice, OpenLauncher } from '@longshore/worker/choose-executor';
import { SYSTEM_CLOCK } from '@longshore/worker/process/clock';
import { KubernetesEngine } from './kubernetes/kubernetes.engine.js';
import { SlurmEngine } from './slurm/slurm.engine.js';
import type { Engine } from './launcher/engine.js';
import { Launcher } from './launcher/launcher.js';
import { EngineFault } from '@longshore/worker/runtime/runtime';
import type { EngineSettings } from '@longshore/worker/settings/worker-settings';

const RETRY = { firstMs: 1000, maxMs: 30_000 };

/** Opens the engine, and waits while it does not answer. */
export const openLauncher: OpenLauncher = async (engineSettings, choice) => {
  const { settings, logger, signal } = choice;
  const backoff = new Backoff(RETRY, Math.random);
  while (!signal.aborted) {
    const engine = createEngine(engineSettings, choice);
    try {
      await engine.open();
      logger.info({ engine: engine.name, resources: engine.capacity() }, 'runs are submitted to a cluster');
      return { create: (host) => new Launcher(host, engine, settings), close: () => engine.close() };
    } catch (error) {
      await engine.close();
      if (!(error instanceof EngineFault)) throw error;
      logger.warn({ engine: engine.name, error: error.message }, 'the engine does not answer, retrying');
    }
    await SYSTEM_CLOCK.sleep(backoff.nextMs(), signal);
  }
  return null;
};

function createEngine(
  engine: EngineSettings,
  { settings, workerId, env, logger, files }: EngineChoice,
): Engine {
  const { deployment, cpuCores, ramMb, volumes, fetchNetworks, oldEngine } = settings;
  const options = { workerId, env, log: logger, deployment };
  switch (engine.name) {
    case 'kubernetes':
      return new KubernetesEngine({
        ...options,
        settings: engine.settings,
        volumes,
        fetchNetworks,
        oldEngine,
        maxGraceSeconds: settings.maxGraceSeconds,
        fixedResources: cpuCores !== null && ramMb !== null,
      });
    case 'slurm':
      return new SlurmEngine({ ...options, settings: engine.settings, volumes, files });
  }
}
