import { isJsonObject } from './json/json-value.js';

/** The part of constraints, as the API shows them, that not every worker can keep. */
export interface DemandingConstraints {
  readonly cpu: number;
  readonly cpu_millis?: number;
  readonly cpu_limit_millis?: number;
  readonly gpus?: number;
  readonly gpu_selector?: readonly string[];
  readonly shm_mb?: number;
}

/** What a worker must be able to do for the constraints of a run. */
export function capabilitiesOfConstraints(constraints: DemandingConstraints): string[] {
  const { cpu, gpus = 0, gpu_selector: tags = [], shm_mb: shmMb } = constraints;
  const { cpu_millis: request = cpu * 1000, cpu_limit_millis: limit = request } = constraints;
  return [
    ...(request % 1000 !== 0 || limit !== request ? ['cpu_millis'] : []),
    ...(gpus > 0 || tags.length > 0 ? ['gpus'] : []),
    ...(shmMb === undefined ? [] : ['shm']),
  ];
}

/**
 * What a worker must be able to do for an option of a run.
 * @param declared of the option: one that ends in `:` goes on with what the value says
 * @param value of the option, which is set
 */
export function capabilitiesOfOption(declared: readonly string[], value: unknown): string[] {
  return declared.flatMap((name) => {
    if (Array.isArray(value) && name === 'scratch') return value.some(isScratch) ? name : [];
    if (Array.isArray(value) && name === 'volume:') return value.flatMap(capabilityOfVolume);
    return name.endsWith(':') && typeof value === 'string' ? `${name}${value}` : name;
  });
}

function isScratch(mount: unknown): boolean {
  return volumeOf(mount) === undefined;
}

function capabilityOfVolume(mount: unknown): string[] {
  const volume = volumeOf(mount);
  if (volume === undefined) return [];
  const isReadOnly = isJsonObject(mount) && mount['read_only'] === true;
  return [isReadOnly ? `volume:${volume}` : `volume:${volume}:rw`];
}

/** Undefined: an empty folder. */
function volumeOf(mount: unknown): string | undefined {
  const volume = isJsonObject(mount) ? mount['volume'] : undefined;
  return typeof volume === 'string' ? volume : undefined;
}
