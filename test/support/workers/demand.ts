import type { DataSource } from 'typeorm';
import { RunCountsRepository } from '../../../src/runs/counts/run-counts.repository.js';
import { EventRepository } from '../../../src/runs/events/event.repository.js';
import { laneOf, requiredOf } from '../../../src/runs/queue/lane.js';
import { QueueReader } from '../../../src/runs/queue/queue.reader.js';
import {
  requirementIdOf,
  requirementList,
  requirementsOf,
  requirementsOfList,
  type RequiringRun,
  type Requirements,
} from '../../../src/runs/requirements.js';
import { HeldRunRepository } from '../../../src/runs/storage/held-run.repository.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import {
  DemandReader,
  type Demand,
  type DemandSum,
  type KindDemand,
  type RequirementDemand,
  type StageDemand,
} from '../../../src/claims/capacity/demand.reader.js';
import { groupBy } from '../history/index-history.js';
import { NO_PAUSES } from '../runs/journal.js';

/** RAM in MB that each {@link DemandRow} asks for. */
export const DEMAND_RAM_MB = 10;

/** Where runs stand; only those of the first four are counted. */
export const DEMAND_PLACES = [
  'plain',
  'restricted',
  'waiting',
  'in execution',
  'set by an admin',
  'ended',
] as const;

/** A run, by what the demand depends on. */
export interface DemandRow {
  readonly place: (typeof DEMAND_PLACES)[number];
  readonly options: DemandOptions;
  readonly isAdmitted: boolean;
  /** Whether a pause holds a run of the queue. */
  readonly isPaused: boolean;
  readonly priority: number;
  readonly cpu: number;
  readonly vramMb: number;
}

/** What a run requires of a worker. */
export type DemandOptions = Pick<RequiringRun, 'selector' | 'options' | 'extraConstraints'> &
  Partial<Pick<RequiringRun, 'vramMb'>>;

/** The id by which a list of requirements is stored; '': it is empty. */
const idOf = (list: readonly string[]): string => requirementIdOf(requirementsOfList(list)) ?? '';

export function requirementsOfOptions(options: DemandOptions): Requirements {
  return requirementsOf({ ...options, cpu: 0, vramMb: options.vramMb ?? 0 });
}

/** The reader of the service. */
export function demandReaderOn(dataSource: DataSource): DemandReader {
  return new DemandReader(
    dataSource,
    new RunCountsRepository(),
    new HeldRunRepository(),
    new QueueReader(new RunRepository(), new EventRepository(), NO_PAUSES),
  );
}

/** The oracle of the reader: counts rows one by one. They are in the order of their creation and of the ends of their waits. */
export function countOneByOne(
  given: readonly DemandRow[],
  limit: number,
  maxCounted: number,
): Omit<Demand, 'at'> {
  const inOrder = (place: DemandRow['place']): DemandRow[] => given.filter((one) => one.place === place);
  const byPriority = (place: DemandRow['place']): DemandRow[] =>
    inOrder(place).toSorted((a, b) => b.priority - a.priority);
  const maxWaiting = Math.floor(maxCounted / 4);
  const maxRestricted = Math.floor(maxCounted / 2);
  const waiting = inOrder('waiting').slice(0, maxWaiting);
  const lanes = [...groupBy(byPriority('restricted'), (one) => laneOfRow(one).lane)].toSorted(([a], [b]) =>
    a < b ? -1 : 1,
  );
  const share = Math.max(1, Math.floor(maxRestricted / Math.max(1, lanes.length)));
  const ofLanes = lanes.map(([, rows]) =>
    rows.toSorted((a, b) => Number(isRead(b)) - Number(isRead(a))).slice(0, share),
  );
  const restricted = ofLanes.flat().slice(0, maxRestricted);
  const plain = byPriority('plain')
    .toSorted((a, b) => Number(a.isPaused) - Number(b.isPaused))
    .slice(0, maxCounted - waiting.length - restricted.length);
  const counted = [...waiting, ...restricted, ...plain, ...inOrder('in execution')];
  const requirements = demandsOf(counted, requiredBy);
  return {
    all: stagesOf(counted),
    startAt: 0,
    paused: counted.filter(isHeldByPause).length,
    held: 0,
    dependent: 0,
    kinds: inAnyOrder(
      demandsOf(
        counted.filter((one) => !isHeldByPause(one) && (one.place === 'plain' || one.isAdmitted)),
        (row) => [requiredBy(row), 1000 * row.cpu, row.vramMb] as const,
      )
        .filter(({ ready }) => ready.runs > 0)
        .map(({ key: [required, cpuMillis, vramMb], ready }) => ({
          required,
          cpuMillis,
          ramMb: DEMAND_RAM_MB,
          vramMb,
          gpus: 0,
          admitted: ready.runs,
        })),
    ),
    isAtLeast:
      waiting.length === maxWaiting ||
      restricted.length === maxRestricted ||
      ofLanes.some(({ length }) => length === share) ||
      waiting.length + restricted.length + plain.length === maxCounted,
    shapes: demandsOf(counted, ({ cpu, vramMb }): readonly [number, number] => [cpu, vramMb])
      .toSorted(
        ({ key: [cpu, vramMb] }, { key: [otherCpu, otherVramMb] }) => cpu - otherCpu || vramMb - otherVramMb,
      )
      .toSorted(largestFirst)
      .slice(0, limit)
      .map(({ key: [cpu, vramMb], ready, waiting: later, inExecution }) => ({
        cpuMillis: 1000 * cpu,
        ramMb: DEMAND_RAM_MB,
        vramMb,
        gpus: 0,
        ready: ready.runs,
        waiting: later.runs,
        inExecution: inExecution.runs,
      })),
    unrestricted: requirements.filter(({ key }) => key.length === 0).map(toRequirementDemand)[0] ?? null,
    requirements: requirements
      .filter(({ key }) => key.length > 0)
      .toSorted((a, b) => (idOf(a.key) < idOf(b.key) ? -1 : 1))
      .toSorted(largestFirst)
      .slice(0, limit)
      .map(toRequirementDemand),
  };
}

/** Whether claims read the row of the queue. */
function isRead({ isAdmitted, isPaused }: DemandRow): boolean {
  return isAdmitted && !isPaused;
}

function isHeldByPause({ place, isPaused }: DemandRow): boolean {
  return isPaused && (place === 'plain' || place === 'restricted');
}

/** The kinds, in an order that depends on what they are alone. */
export function inAnyOrder(kinds: readonly KindDemand[]): KindDemand[] {
  return kinds.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}

/** The lane of a row of another lane than the plain one, what it requires, and its concurrency key, without which it is admitted. */
export function laneOfRow({ options, isAdmitted }: Pick<DemandRow, 'options' | 'isAdmitted'>) {
  const requirements = requirementsOfOptions(options);
  const requirementId = requirementIdOf(requirements);
  const concurrencyKey = isAdmitted && requirementId !== null ? null : 'key';
  const demands = { requirementId, concurrencyKey, avoidedWorker: null };
  return {
    lane: laneOf(demands),
    required: requiredOf(demands, requirements),
    concurrency_key: concurrencyKey,
  };
}

function requiredBy({ options }: DemandRow): readonly string[] {
  return requirementList(requirementsOfOptions(options));
}

function toRequirementDemand({
  key,
  ...stages
}: StageDemand & { key: readonly string[] }): RequirementDemand {
  return { required: key, ...stages };
}

/** The demand of the rows by a key. */
function demandsOf<K>(
  rows: readonly DemandRow[],
  keyOf: (row: DemandRow) => K,
): (StageDemand & { key: K })[] {
  return [...groupBy(rows, (row) => JSON.stringify(keyOf(row)))].map(([key, group]) => ({
    key: JSON.parse(key),
    ...stagesOf(group),
  }));
}

function largestFirst(a: StageDemand, b: StageDemand): number {
  const pending = b.ready.runs + b.waiting.runs - a.ready.runs - a.waiting.runs;
  return pending || b.inExecution.runs - a.inExecution.runs;
}

const NOTHING: DemandSum = { runs: 0, cpuMillis: 0, ramMb: 0, vramMb: 0, gpus: 0 };

function stagesOf(rows: readonly DemandRow[]): StageDemand {
  const sum = (isCounted: (row: DemandRow) => boolean): DemandSum =>
    rows.filter(isCounted).reduce(
      (total, { cpu, vramMb }) => ({
        runs: total.runs + 1,
        cpuMillis: total.cpuMillis + 1000 * cpu,
        ramMb: total.ramMb + DEMAND_RAM_MB,
        vramMb: total.vramMb + vramMb,
        gpus: total.gpus + Math.sign(vramMb),
      }),
      NOTHING,
    );
  return {
    ready: sum((row) => (row.place === 'plain' || row.place === 'restricted') && !row.isPaused),
    waiting: sum((row) => row.place === 'waiting' || isHeldByPause(row)),
    inExecution: sum(({ place }) => place === 'in execution'),
    heldBack: rows.filter((row) => row.place === 'restricted' && !row.isAdmitted && !row.isPaused).length,
  };
}
