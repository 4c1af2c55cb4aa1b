import type { Schemas } from './client.js';

/** Cores in words, from thousandths where the API has them. */
export function describeCores(cores: number, millis?: number | null): string {
  return String((millis ?? cores * 1000) / 1000);
}

/**
 * What constraints ask for, in words; empty: nothing.
 * @param sizeOf an amount of MB in words
 */
export function describeNeeds(constraints: Schemas['Constraints'], sizeOf: (mb: number) => string): string[] {
  const { cpu, ram_mb: ramMb, vram_mb: vramMb, shm_mb: shmMb, gpu_id: gpuId } = constraints;
  const { gpus = 0, gpu_selector: tags = [], cpu_limit_millis: limit } = constraints;
  const { gpu_ids: chosen = gpuId === null ? [] : [gpuId] } = constraints;
  const each = gpus > 0 ? ' each' : '';
  const needs = [
    cpu > 0 && `${describeCores(cpu, constraints.cpu_millis)} CPU`,
    limit !== undefined && (limit === 0 ? 'no limit of CPU' : `at most ${limit / 1000} CPU`),
    ramMb > 0 && `${sizeOf(ramMb)} RAM`,
    shmMb !== undefined && `${sizeOf(shmMb)} /dev/shm`,
    gpus > 0 && `${gpus} whole ${gpus === 1 ? 'GPU' : 'GPUs'}`,
    vramMb > 0 && `${sizeOf(vramMb)} GPU memory${each}`,
    tags.length > 0 && `GPU tags ${tags.join('+')}`,
    chosen.length > 0 && `${chosen.length === 1 ? 'GPU' : 'GPUs'} ${chosen.join('+')}`,
  ];
  return needs.filter((need) => typeof need === 'string');
}

/** A file of a run as people read it: with the number of its bytes in place of base64. */
export function shortFile<T extends object>(file: T): T {
  const base64: unknown = Reflect.get(file, 'content_base64');
  if (typeof base64 !== 'string') return file;
  const bytes = (base64.replace(/=+$/, '').length * 3) >> 2;
  return { ...file, content_base64: `binary, ${bytes} bytes` };
}

/**
 * How the needs of attempts grow, in words.
 * @param sizeOf an amount of MB in words
 */
export function describeGrowth(
  { ram_mb: ram }: NonNullable<Schemas['RetryPolicy']['grow']>,
  sizeOf: (mb: number) => string,
): string {
  const { factor, max, on = ['oom'] } = ram;
  return `RAM x ${factor} after ${on.join(', ') || 'no failure'}, at most ${sizeOf(max)}`;
}
