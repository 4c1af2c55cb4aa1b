import { offeredBy, requirementList, requirementsOfList } from '../../runs/requirements.js';
import type { HeldRun } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../../workers/pool/worker-pool.js';
import { unmetWords } from '../requirement-words.js';
import { toPendingDto, toSumDto, type DemandSelectorDto } from './capacity.dto.js';
import type { RequirementDemand } from './demand.reader.js';

/**
 * Runs that require the same of a worker, and how many workers have it.
 * @param workers those that accept runs
 * @param held their runs, by worker
 */
export function toSelectorDtos(
  demands: readonly RequirementDemand[],
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
): DemandSelectorDto[] {
  const offers = workers.map((worker) => ({
    list: new Set(requirementList(offeredBy(worker))),
    isIdle: !held.has(worker.id),
  }));
  return demands.map(({ required, ready, waiting, inExecution, heldBack }) => {
    const matching = offers.filter(({ list }) => required.every((one) => list.has(one)));
    const requirements = requirementsOfList(required);
    return {
      selector: [...requirements.tags],
      capabilities: [...requirements.capabilities],
      gpu_selector: [...requirements.gpuTags],
      lacking:
        matching.length > 0 || required.length === 0
          ? null
          : unmetWords(workers.map(offeredBy), requirements),
      pending: toPendingDto(ready, waiting),
      ready: toSumDto(ready),
      waiting: toSumDto(waiting),
      in_execution: toSumDto(inExecution),
      held_back: heldBack,
      workers: matching.length,
      idle: matching.filter(({ isIdle }) => isIdle).length,
    };
  });
}
