import type {
  DemandByRequirements,
  PendingDemand,
  RequirementDemand,
} from '../../runs/counts/requirement-demand.js';
import { addUp, minus } from '../../runs/counts/demand-sums.js';
import type { RunDemand } from '../../runs/counts/run-demand.reader.js';
import { requirementList, requirementsOfList } from '../../runs/requirements.js';
import type { HeldRun } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../pool/worker-pool.js';
import { toNumbersDto, toSumDto, type DemandNumbersDto, type DemandSelectorDto } from './capacity.dto.js';

/**
 * The demand by what runs require of workers: runs without requirements first, if there are any, then the largest groups.
 * @param workers those that accept runs
 * @param held their runs, by worker
 */
export function selectorDemand(
  demand: RunDemand,
  { largest, all, heldBackWithout }: DemandByRequirements,
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
): { readonly selectors: DemandSelectorDto[]; readonly other: DemandNumbersDto | null } {
  const without: RequirementDemand = {
    required: [],
    ready: minus(demand.ready, all.ready),
    waiting: minus(demand.waiting, all.waiting),
    inExecution: minus(demand.inExecution, all.inExecution),
    heldBack: heldBackWithout,
  };
  const offers = workers.map((worker) => ({
    list: new Set(requirementList(worker)),
    isIdle: !held.has(worker.id),
  }));
  const toDto = ({ required, ...counts }: RequirementDemand): DemandSelectorDto => {
    const matching = offers.filter(({ list }) => required.every((one) => list.has(one)));
    const { tags, capabilities } = requirementsOfList(required);
    return {
      selector: [...tags],
      capabilities: [...capabilities],
      pending: toSumDto(addUp(counts.ready, counts.waiting)),
      ready: toSumDto(counts.ready),
      waiting: toSumDto(counts.waiting),
      in_execution: toSumDto(counts.inExecution),
      held_back: counts.heldBack,
      workers: matching.length,
      idle: matching.filter(({ isIdle }) => isIdle).length,
    };
  };
  const other = numbersOf(all);
  for (const one of largest) {
    const { ready, waiting, inExecution } = numbersOf(one);
    other.ready -= ready;
    other.waiting -= waiting;
    other.inExecution -= inExecution;
  }
  const hasAny = (counts: ReturnType<typeof numbersOf>): boolean =>
    Object.values(counts).some((runs) => runs > 0);
  return {
    selectors: [...(hasAny(numbersOf(without)) ? [without] : []), ...largest].map(toDto),
    other: hasAny(other) ? toNumbersDto(other) : null,
  };
}

function numbersOf({ ready, waiting, inExecution }: PendingDemand) {
  return { ready: ready.runs, waiting: waiting.runs, inExecution: inExecution.runs };
}
