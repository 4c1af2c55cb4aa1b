import type { Setting } from '@longshore/common/settings/setting';
import { SettingsReader } from '@longshore/common/settings/settings-reader';
import { COMMON_SETTINGS } from './common-settings.js';
import { KUBERNETES_SETTINGS, type KubernetesSettings } from './kubernetes-settings.js';
import { settingsOf, type SettingsOf } from './setting-table.js';
import { SLURM_SETTINGS, type SlurmSettings } from './slurm-settings.js';
import { volumesProblem } from './volumes.js';

/** Every setting of the worker program, in the order in which help shows them. */
export const WORKER_SETTINGS: readonly Setting[] = [
  COMMON_SETTINGS,
  KUBERNETES_SETTINGS,
  SLURM_SETTINGS,
].flatMap((table): Setting[] => Object.values(table));

/** The cluster to which runs are submitted. */
export type EngineSettings =
  | { readonly name: 'kubernetes'; readonly settings: KubernetesSettings }
  | { readonly name: 'slurm'; readonly settings: SlurmSettings };

export interface WorkerSettings extends SettingsOf<typeof COMMON_SETTINGS> {
  /** Null: runs are executed on this machine. */
  readonly engine: EngineSettings | null;
}

/**
 * Reads the settings from flags and environment variables.
 * @throws SettingsError with a line for every wrong setting
 */
export function loadWorkerSettings(
  argv: readonly string[],
  env: Readonly<NodeJS.ProcessEnv>,
): WorkerSettings {
  const reader = new SettingsReader(WORKER_SETTINGS, argv, env);
  const settings = settingsOf(COMMON_SETTINGS, reader);
  const { runtime, workerId, gpuIds, volumes, onStop } = settings;
  const engine = engineOf(runtime, reader);
  const unfit = volumesProblem(volumes, runtime);
  if (unfit !== null) reader.refuse('SERVICE_WORKER_VOLUMES', unfit);
  if (engine !== null && workerId === null)
    reader.refuse(
      'SERVICE_WORKER_ID',
      `with the runtime ${runtime}, jobs are found again by it after a restart`,
    );
  if (runtime === 'process' && onStop === 'leave')
    reader.refuse('SERVICE_WORKER_ON_STOP', 'with the runtime process, programs end with the worker');
  if (engine !== null && gpuIds !== null)
    reader.refuse('SERVICE_WORKER_GPUS', `with the runtime ${runtime}, the cluster assigns GPUs`);
  reader.throwIfRefused();
  return { ...settings, engine };
}

function engineOf(name: WorkerSettings['runtime'], reader: SettingsReader<string>): EngineSettings | null {
  if (name === 'kubernetes') return { name, settings: settingsOf(KUBERNETES_SETTINGS, reader) };
  return name === 'slurm' ? { name, settings: settingsOf(SLURM_SETTINGS, reader) } : null;
}
