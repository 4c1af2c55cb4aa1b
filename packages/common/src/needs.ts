/** Constraints of a run or a definition as the API shows them. */
export interface ShownConstraints {
  readonly cpu: number;
  readonly ram_mb: number;
  readonly vram_mb: number;
  readonly gpu_id?: number | null;
  readonly cpu_millis?: number | null;
  readonly cpu_limit_millis?: number | null;
  readonly gpus?: number | null;
  readonly gpu_selector?: readonly string[] | null;
  readonly shm_mb?: number | null;
  readonly gpu_ids?: readonly number[] | null;
}

/** `retry_policy.grow` of a run or a definition as the API shows it. */
export interface ShownGrowth {
  readonly ram_mb: { readonly factor: number; readonly max: number; readonly on?: readonly string[] };
}

/**
 * How the needs of attempts grow, in words.
 * @param sizeOf an amount of MB in words
 */
export function describeGrowth({ ram_mb: ram }: ShownGrowth, sizeOf: (mb: number) => string): string {
  const { factor, max, on = ['oom'] } = ram;
  return `RAM x ${factor} after ${on.join(', ') || 'no failure'}, at most ${sizeOf(max)}`;
}

/** Cores in words, from thousandths where the API has them. */
export function describeCores(cores: number, millis?: number | null): string {
  return String((millis ?? cores * 1000) / 1000);
}

/**
 * What constraints ask for, in words; empty: nothing.
 * @param sizeOf an amount of MB in words
 */
export function describeNeeds(constraints: ShownConstraints, sizeOf: (mb: number) => string): string[] {
  const { cpu, ram_mb: ramMb, vram_mb: vramMb, shm_mb: shmMb, gpu_id: gpuId } = constraints;
  const { gpus = 0, gpu_selector: tags, gpu_ids: gpuIds, cpu_limit_millis: limit } = constraints;
  const chosen = gpuIds ?? (typeof gpuId === 'number' ? [gpuId] : []);
  const each = gpus ? ' each' : '';
  const needs = [
    cpu > 0 && `${describeCores(cpu, constraints.cpu_millis)} CPU`,
    typeof limit === 'number' && (limit === 0 ? 'no limit of CPU' : `at most ${limit / 1000} CPU`),
    ramMb > 0 && `${sizeOf(ramMb)} RAM`,
    typeof shmMb === 'number' && `${sizeOf(shmMb)} /dev/shm`,
    gpus && `${gpus} whole ${gpus === 1 ? 'GPU' : 'GPUs'}`,
    vramMb > 0 && `${sizeOf(vramMb)} GPU memory${each}`,
    tags && tags.length > 0 && `GPU tags ${tags.join('+')}`,
    chosen.length > 0 && `${chosen.length === 1 ? 'GPU' : 'GPUs'} ${chosen.join('+')}`,
  ];
  return needs.filter((need) => typeof need === 'string');
}
