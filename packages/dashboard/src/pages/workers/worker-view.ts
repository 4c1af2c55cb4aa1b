import { plainText } from '@longshore/common/shown-text';
import type { Schemas } from '../../api/use-api.js';
import { formatCount } from '../../lib/format.js';

/** A worker as the API has it. */
export type Worker = Schemas['Worker'];

/**
 * `stale` is silent past the worker timeout, `away` keeps its runs without heartbeats for a while, `draining` takes no new runs,
 * `not claiming` says itself why it takes none.
 */
export type WorkerState = 'active' | 'draining' | 'not claiming' | 'away' | 'stale';

export const WORKER_STATES: readonly WorkerState[] = ['active', 'draining', 'not claiming', 'away', 'stale'];

/** How much of one resource is used. */
export interface Use {
  readonly used: number;
  readonly total: number;
}

/** A GPU with what is used of its memory, in MB. */
export interface GpuUse extends Use {
  readonly id: number;
  readonly tags: readonly string[];
}

/** Being silent says more than being drained: a stale worker finishes nothing. */
export function stateOf(worker: Worker): WorkerState {
  const { is_active: isActive, away_until: until, draining, not_claiming: reasons } = worker;
  if (!isActive) return until === undefined ? 'stale' : 'away';
  if (draining) return 'draining';
  return reasons.length > 0 ? 'not claiming' : 'active';
}

/** Why a worker does not claim, in words; empty: it claims. */
export function whyNotClaiming({ not_claiming: reasons }: Pick<Worker, 'not_claiming'>): string {
  return reasons
    .map(({ reason, message }) => `${reason.replaceAll('_', ' ')}${message && `: ${plainText(message)}`}`)
    .join('; ');
}

/** What the machine of a worker is unable to do, in words; empty: nothing. */
export function unableTo({ unable }: Pick<Worker, 'unable'>): string {
  return unable
    .map(({ ability, message }) => `${ability.replaceAll('_', ' ')}${message && `: ${message}`}`)
    .join('; ');
}

/** In cores, parts of them where the service tells those. */
export function cpuUse({ resources, free }: Worker): Use {
  const { used, total } = toUse(resources.cpu_cores * 1000, free?.cpu_millis);
  return { used: used / 1000, total: total / 1000 };
}

/** In MB. */
export function ramUse({ resources, free }: Worker): Use {
  return toUse(resources.ram_mb, free?.ram_mb);
}

export function gpuUses({ resources, free }: Worker): GpuUse[] {
  return resources.gpus.map(({ id, vram_mb: total, tags }) => ({
    id,
    tags,
    ...toUse(total, free?.gpus.find((gpu) => gpu.id === id)?.vram_mb),
  }));
}

/** The jobs of a launcher in its engine, in words. */
export function jobsOf({ pending, running }: Schemas['EngineJobs']): string[] {
  return [`${formatCount(pending)} pending`, `${formatCount(running)} running`];
}

/** The runs that are assigned to a worker; none where the answer does not tell. */
export function assignedRuns({ assigned = { count: 0, ids: [] } }: Worker): NonNullable<Worker['assigned']> {
  return assigned;
}

/** The runs that a worker has last reported and that are not assigned to it: others may have them, or they have ended. */
export function formerRuns({ assigned, running_ops: reported }: Worker): Worker['running_ops'] {
  // Of more runs than it has ids the answer does not tell.
  if (assigned === undefined || assigned.count > assigned.ids.length) return [];
  return reported.filter(({ id }) => !assigned.ids.includes(id));
}

/** How many workers are in each state. */
export function countStates(workers: readonly Worker[]): Readonly<Record<WorkerState, number>> {
  const counts = { active: 0, draining: 0, 'not claiming': 0, away: 0, stale: 0 };
  for (const worker of workers) counts[stateOf(worker)] += 1;
  return counts;
}

/** Whether the worker has the text in its id, its tags, its engine, its GPUs' tags or the runs on it. */
export function matches(
  { id, tags, engine, resources, running_ops: runs, assigned }: Worker,
  text: string,
): boolean {
  const wanted = text.trim().toLowerCase();
  if (wanted === '') return true;
  const words = [
    id,
    ...tags,
    engine?.name ?? '',
    ...resources.gpus.flatMap((gpu) => gpu.tags),
    ...runs.flatMap((run) => [run.id, run.image]),
    ...(assigned?.ids ?? []),
  ];
  return words.some((word) => word.toLowerCase().includes(wanted));
}

function toUse(total: number, free: number | undefined): Use {
  return { total, used: total - (free ?? total) };
}
