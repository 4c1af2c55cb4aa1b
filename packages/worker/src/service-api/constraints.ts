import type { Schemas } from '@longshore/client';
import { isJsonObject } from '@longshore/common/json/json-value';

/** Hardware requirements of a run; 0: no requirement and no limit. */
export interface Constraints {
  readonly ramMb: number;
  /** With `gpus`, the least memory of each of them; else a share of one GPU. */
  readonly vramMb: number;
  /** Thousandths of a core. */
  readonly cpuMillis: number;
  /** Thousandths of a core that it may use at most. */
  readonly cpuLimitMillis: number;
  /** Whole GPUs that it has alone. */
  readonly gpus: number;
  /** Tags that each of its GPUs has. */
  readonly gpuSelector: readonly string[];
  /** Size of /dev/shm; null: `ramMb` where that is set, else that of the engine. */
  readonly shmMb: number | null;
  /** Chosen by the service; empty: none. */
  readonly gpuIds: readonly number[];
}

/** Of a run without requirements. */
export const NO_CONSTRAINTS: Constraints = {
  ramMb: 0,
  vramMb: 0,
  cpuMillis: 0,
  cpuLimitMillis: 0,
  gpus: 0,
  gpuSelector: [],
  shmMb: null,
  gpuIds: [],
};

const AMOUNTS = ['ram_mb', 'vram_mb', 'cpu', 'cpu_millis', 'cpu_limit_millis', 'gpus', 'shm_mb'] as const;

/** What is absent is no requirement. Null: not of the documented shape, so that the run must not be executed. */
export function readConstraints(value: unknown): Constraints | null {
  const given = value ?? {};
  if (!isJsonObject(given)) return null;
  const amounts = AMOUNTS.map((name) => readAmount(given[name]));
  const gpuSelector = given['gpu_selector'] ?? [];
  const gpuIds = given['gpu_ids'] ?? [given['gpu_id'] ?? []].flat();
  if (amounts.includes(undefined) || !areTexts(gpuSelector) || !areAmounts(gpuIds)) return null;
  const [ramMb, vramMb, cpu, cpuMillis, cpuLimitMillis, gpus, shmMb] = amounts;
  const millis = cpuMillis ?? (cpu ?? 0) * 1000;
  return {
    ramMb: ramMb ?? 0,
    vramMb: vramMb ?? 0,
    cpuMillis: millis,
    cpuLimitMillis: cpuLimitMillis ?? millis,
    gpus: gpus ?? 0,
    gpuSelector,
    shmMb: shmMb ?? null,
    gpuIds,
  };
}

/** As the service shows them: what is not in interface.md only where the run has it. */
export function toWireConstraints({
  ramMb,
  vramMb,
  cpuMillis,
  cpuLimitMillis,
  gpus,
  gpuSelector,
  shmMb,
  gpuIds,
}: Constraints): Schemas['Constraints'] {
  return {
    ram_mb: ramMb,
    vram_mb: vramMb,
    cpu: Math.ceil(cpuMillis / 1000),
    gpu_id: gpuIds[0] ?? null,
    ...(cpuMillis % 1000 !== 0 && { cpu_millis: cpuMillis }),
    ...(cpuLimitMillis !== cpuMillis && { cpu_limit_millis: cpuLimitMillis }),
    ...(gpus > 0 && { gpus }),
    ...(gpuSelector.length > 0 && { gpu_selector: [...gpuSelector] }),
    ...(shmMb !== null && { shm_mb: shmMb }),
    ...(gpus > 0 && gpuIds.length > 0 && { gpu_ids: [...gpuIds] }),
  };
}

/** Null: there is none; undefined: it is something else. */
function readAmount(value: unknown = null): number | null | undefined {
  return value === null || isAmount(value) ? value : undefined;
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function areAmounts(values: unknown): values is number[] {
  return Array.isArray(values) && values.every(isAmount);
}

function areTexts(values: unknown): values is string[] {
  return Array.isArray(values) && values.every((value) => typeof value === 'string');
}
