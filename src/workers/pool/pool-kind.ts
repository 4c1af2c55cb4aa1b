import type { Settings, WorkerPoolKind } from '../../config/settings.js';

/** Which pool a process uses: as set, else the one in memory for a single server process. */
export function poolKindOf({
  workerPool,
  workers,
}: Pick<Settings, 'workerPool' | 'workers'>): WorkerPoolKind {
  return workerPool ?? (workers > 1 ? 'shared' : 'memory');
}
