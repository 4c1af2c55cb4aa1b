import type { HeldRun } from '../../runs/scheduling-strategy.js';
import { freeResources } from '../../workers/free-resources.js';
import { summariseWorkers, toCores, type Usage } from '../../workers/overview/overview.service.js';
import { summariseEngines, takesRuns, type PooledWorker } from '../../workers/pool/worker-pool.js';
import type { SupplyDto, SupplySizeDto, SupplySumDto } from './capacity.dto.js';

/** Adds up the resources of workers. @param limit sizes and engines that are listed */
export function summariseSupply(
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
  reserved: ReadonlySet<string>,
  limit: number,
): SupplyDto {
  const all = workers.map((worker) => ({ worker, free: freeResources(worker, held.get(worker.id) ?? []) }));
  const {
    active,
    draining,
    not_claiming: notClaiming,
    stale,
    cpuMillis,
    ramMb,
    vramMb,
  } = summariseWorkers(all);
  const open = all.filter(({ worker }) => takesRuns(worker));
  const gpus = open.flatMap(({ free }) => free.gpus);
  const sizes = sizesOf(
    open.map(({ worker }) => worker),
    held,
  );
  const rest = sizes.slice(limit);
  return {
    workers: {
      active,
      idle: sizes.reduce((sum, { idle }) => sum + idle, 0),
      reserved: open.filter(({ worker }) => reserved.has(worker.id)).length,
      draining,
      not_claiming: notClaiming,
      stale,
    },
    cpu: toSumDto(toCores(cpuMillis)),
    cpu_millis: toSumDto(cpuMillis),
    ram_mb: toSumDto(ramMb),
    vram_mb: toSumDto(vramMb),
    gpus: toSumDto({ total: gpus.length, used: gpus.filter(({ isIdle }) => !isIdle).length }),
    sizes: sizes.slice(0, limit),
    other:
      rest.length === 0
        ? null
        : {
            sizes: rest.length,
            workers: rest.reduce((sum, size) => sum + size.workers, 0),
            idle: rest.reduce((sum, size) => sum + size.idle, 0),
          },
    engines: summariseEngines(workers, limit),
  };
}

/** The most frequent sizes first. */
function sizesOf(
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
): SupplySizeDto[] {
  const sizes = new Map<string, SupplySizeDto>();
  for (const { id, cpuCores, ramMb, gpus: given } of workers) {
    const gpus = given.map(({ vramMb }) => vramMb).toSorted((a, b) => b - a);
    const key = [cpuCores, ramMb, ...gpus].join();
    const size = sizes.get(key) ?? { cpu_cores: cpuCores, ram_mb: ramMb, gpus, workers: 0, idle: 0 };
    size.workers += 1;
    size.idle += held.has(id) ? 0 : 1;
    sizes.set(key, size);
  }
  return [...sizes.values()].toSorted((a, b) => b.workers - a.workers);
}

function toSumDto({ total, used }: Usage): SupplySumDto {
  return { total, free: total - used };
}
