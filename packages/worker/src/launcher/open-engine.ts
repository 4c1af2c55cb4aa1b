import { Backoff } from '@longshore/common/backoff';
import type { Clock } from '../clock.js';
import { KubernetesEngine } from '../engines/kubernetes/kubernetes.engine.js';
import { SlurmEngine } from '../engines/slurm/slurm.engine.js';
import type { EngineSettings, WorkerSettings } from '../settings/load-settings.js';
import { EngineFault, type RuntimeLog } from '../runtime/runtime.js';
import type { Engine } from './engine.js';

const RETRY = { firstMs: 1000, maxMs: 30_000 };

export interface EngineChoice {
  readonly engine: EngineSettings;
  readonly settings: Pick<WorkerSettings, 'deployment' | 'stopGraceSeconds' | 'cpuCores' | 'ramMb'>;
  readonly workerId: string;
  readonly env: NodeJS.ProcessEnv;
  readonly log: RuntimeLog;
}

/**
 * Opens the engine, and waits while it does not answer.
 * @param signal ends the wait
 * @returns null when the signal was aborted
 * @throws SettingsError when a setting is wrong or a permission is missing
 */
export async function openEngine(
  choice: EngineChoice,
  clock: Clock,
  signal: AbortSignal,
): Promise<Engine | null> {
  const backoff = new Backoff(RETRY, Math.random);
  while (!signal.aborted) {
    const engine = createEngine(choice);
    try {
      await engine.open();
      return engine;
    } catch (error) {
      await engine.close();
      if (!(error instanceof EngineFault)) throw error;
      choice.log.warn({ engine: engine.name, error: error.message }, 'the engine does not answer, retrying');
    }
    await clock.sleep(backoff.nextMs(), signal);
  }
  return null;
}

function createEngine({ engine, settings, ...identity }: EngineChoice): Engine {
  const { deployment, stopGraceSeconds, cpuCores, ramMb } = settings;
  const options = { ...identity, deployment };
  switch (engine.name) {
    case 'kubernetes':
      return new KubernetesEngine({
        ...options,
        settings: engine.settings,
        stopGraceSeconds,
        fixedResources: cpuCores !== null && ramMb !== null,
      });
    case 'slurm':
      return new SlurmEngine({ ...options, settings: engine.settings });
  }
}
