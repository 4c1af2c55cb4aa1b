import type { EngineJobs, PooledWorker } from './worker-pool.js';

/** The jobs of all active launchers with one kind of engine. */
export interface EngineUse extends EngineJobs {
  readonly launchers: number;
}

/** The engines of active workers, those with the most jobs first, then by name. */
export function summariseEngines(
  workers: Iterable<Pick<PooledWorker, 'engine' | 'isActive'>>,
  limit: number,
): EngineUse[] {
  const uses = new Map<string, EngineUse>();
  for (const { engine, isActive } of workers) {
    if (!isActive || engine === null) continue;
    const { name } = engine;
    const { launchers, pending, running } = uses.get(name) ?? { launchers: 0, pending: 0, running: 0 };
    uses.set(name, {
      name,
      launchers: launchers + 1,
      pending: pending + engine.pending,
      running: running + engine.running,
    });
  }
  const jobsOf = ({ pending, running }: EngineUse): number => pending + running;
  const byJobs = (a: EngineUse, b: EngineUse): number => jobsOf(b) - jobsOf(a) || (a.name < b.name ? -1 : 1);
  return [...uses.values()].toSorted(byJobs).slice(0, limit);
}
