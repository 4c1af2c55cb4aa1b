import { v5 as uuidV5 } from 'uuid';
import type { Run } from '../machine/run.js';
import {
  elementsOf,
  isAboutGpus,
  requirementList,
  requirementsOfList,
  suitableGpus,
  type DescribedWorker,
  type Requirements,
} from '../requirements.js';
import type { ClaimablePart } from '../../database/notices/commit-notice.js';

/** Id of the plain lane, which has no row. */
export const PLAIN_LANE = '00000000-0000-0000-0000-000000000000';

const NOT_WORKER = 'not-worker:';

/** Every worker meets it: it keeps runs whose key must be locked first out of the plain lane. */
const HAS_KEY = 'concurrency-key';

const NAMESPACE = 'b4f5a0cb-8a38-4f5a-a1d5-6f5b8f0f6a4e';

/** The part of a run that says which claims may get it. */
export type Demands = Pick<Run, 'requirementId' | 'concurrencyKey' | 'avoidedWorker'>;

/** Pending runs that the same workers may get. */
export interface Lane {
  readonly id: string;
  /** What a worker must meet: `tag:NAME`, `capability:NAME`, `gpu:NAME`, `gpus:COUNT:MB`, `not-worker:ID`, `concurrency-key`. */
  readonly required: readonly string[];
}

/** The lane of runs that every worker may get at any time. */
export const PLAIN: Lane = { id: PLAIN_LANE, required: [] };

/** What decides which lanes a worker may serve. */
export interface Offer {
  readonly id: string;
  /** Its tags and capabilities and the tags of its GPUs, as `requirementList`. */
  readonly has: ReadonlySet<string>;
  readonly gpus: DescribedWorker['gpus'];
}

/** Whether every worker may get the run at any time. */
export function isPlain({ requirementId, concurrencyKey, avoidedWorker }: Demands): boolean {
  return requirementId === null && concurrencyKey === null && avoidedWorker === null;
}

/** Id of the run's lane at present: the same for equal demands, in every process. */
export function laneOf({ requirementId, concurrencyKey, avoidedWorker }: Demands): string {
  if (concurrencyKey === null && avoidedWorker === null) return requirementId ?? PLAIN_LANE;
  return uuidV5(JSON.stringify([requirementId, concurrencyKey !== null, avoidedWorker]), NAMESPACE);
}

/** What the lane of a run requires. @param requirements of the run */
export function requiredOf({ concurrencyKey, avoidedWorker }: Demands, requirements: Requirements): string[] {
  return [
    ...requirementList(requirements),
    ...(concurrencyKey === null ? [] : [HAS_KEY]),
    ...(avoidedWorker === null ? [] : [NOT_WORKER + avoidedWorker]),
  ];
}

export function offerOf(worker: DescribedWorker & { readonly id: string }): Offer {
  return { id: worker.id, has: new Set(elementsOf(worker)), gpus: worker.gpus };
}

/** Whether the worker may get the runs of the lane. */
export function serves({ id, has, gpus }: Offer, { required }: Pick<Lane, 'required'>): boolean {
  return required.every((one) => {
    if (one.startsWith(NOT_WORKER)) return one !== NOT_WORKER + id;
    if (isAboutGpus(one)) return hasGpus(gpus, required);
    return one === HAS_KEY || has.has(one);
  });
}

function hasGpus(gpus: DescribedWorker['gpus'], required: readonly string[]): boolean {
  const requirements = requirementsOfList(required);
  return suitableGpus({ gpus }, requirements) >= (requirements.gpus?.count ?? 0);
}

/** What a lane requires that an offer `has` or has not. */
export function offeredOf(required: readonly string[]): string[] {
  return required.filter((one) => !one.startsWith(NOT_WORKER) && one !== HAS_KEY && !isAboutGpus(one));
}

/** Compares runs by the order in which claims get those of a lane: priority descending, age, id. */
export function byQueueOrder(a: Run, b: Run): number {
  const age = a.createdAt.getTime() - b.createdAt.getTime();
  return b.priority - a.priority || age || (a.id < b.id ? -1 : 1);
}

/** Priorities that one notice names; one about more names none. */
const MAX_PRIORITIES = 50;

/** Bytes of lanes that one notice names; one about more names none. */
const MAX_LANE_BYTES = 2_500;

const LEAST_ID = '00000000-0000-0000-0000-000000000000';

/** Where a run is in the queue: priority descending, then age, then id. */
export interface QueuePosition {
  readonly priority: number;
  readonly createdAt: Date;
  readonly id: string;
}

/** A run that claims may read now and could not before. */
export interface ClaimableRun extends QueuePosition {
  readonly lane: Lane;
}

/** Runs that became claimable together. */
export interface QueueNotice {
  /** How many every worker may get at any time. */
  readonly plain: number;
  /** For each priority of these, a position before which nothing was put; null: unknown. */
  readonly from: readonly QueuePosition[] | null;
  /** How many are in other lanes. */
  readonly others: number;
  /** These lanes; null: unknown. */
  readonly lanes: readonly Lane[] | null;
}

/** The runs as part of a commit notice. */
export function claimablePart(runs: readonly ClaimableRun[]): ClaimablePart {
  const oldest = new Map<number, number>();
  const lanes: Record<string, readonly string[]> = {};
  let plain = 0;
  for (const { priority, createdAt, lane } of runs) {
    if (lane.id !== PLAIN_LANE) {
      lanes[lane.id] = lane.required;
      continue;
    }
    plain += 1;
    oldest.set(priority, Math.min(createdAt.getTime(), oldest.get(priority) ?? Number.POSITIVE_INFINITY));
  }
  const others = runs.length - plain;
  const isNamed = others > 0 && Buffer.byteLength(JSON.stringify(lanes)) <= MAX_LANE_BYTES;
  return {
    ...(plain > 0 && { plain, ...(oldest.size <= MAX_PRIORITIES && { from: [...oldest] }) }),
    ...(others > 0 && { others, ...(isNamed && { lanes }) }),
  };
}

export function readClaimablePart({ plain = 0, from, others = 0, lanes }: ClaimablePart): QueueNotice {
  const positions = from?.map(([priority, ms]) => ({ priority, createdAt: new Date(ms), id: LEAST_ID }));
  const known = lanes && Object.entries(lanes).map(([id, required]) => ({ id, required }));
  return {
    plain,
    from: positions ?? (plain === 0 ? [] : null),
    others,
    lanes: others === 0 ? [] : (known ?? null),
  };
}
