import { LRUCache } from 'lru-cache';
import { offerOf, type Offer } from '../runs/queue/lane.js';
import type { ClaimingWorker } from '../runs/scheduling-strategy.js';

/** Workers whose last heartbeat is remembered; the least recently seen is forgotten. */
const MAX_REMEMBERED = 20_000;

/** What a heartbeat said of its worker. */
interface Description extends Pick<ClaimingWorker, 'cpuCores' | 'ramMb'> {
  /** Tags, also of its GPUs, and capabilities. */
  readonly has: string;
  readonly gpus: string;
  /** Null: another process may have heard of other tags or capabilities since. */
  offer: Offer | null;
}

/** What the last heartbeat of each worker to this process said. */
export class WorkerDescriptions {
  readonly #described = new LRUCache<string, Description>({ max: MAX_REMEMBERED });

  /** Notes a heartbeat. @returns whether tags or capabilities have changed, else whether resources have grown, since the last one */
  note(worker: ClaimingWorker): 'changed' | 'grown' | null {
    const { id, cpuCores, ramMb } = worker;
    const has = JSON.stringify([worker.tags, worker.capabilities, worker.gpus.flatMap(({ tags }) => tags)]);
    const gpus = JSON.stringify(worker.gpus);
    const before = this.#described.get(id);
    const isSame = before?.has === has;
    const offer = (isSame && before.offer) || offerOf(worker);
    this.#described.set(id, { has, cpuCores, ramMb, gpus, offer });
    if (before === undefined) return null;
    if (!isSame) return 'changed';
    // Any other GPUs may be larger ones.
    return cpuCores > before.cpuCores || ramMb > before.ramMb || gpus !== before.gpus ? 'grown' : null;
  }

  /** Which lanes the worker may serve; null: unknown. */
  offerOf(workerId: string): Offer | null {
    return this.#described.get(workerId)?.offer ?? null;
  }

  /** Another process has heard of other tags or capabilities. */
  forgetOffer(workerId: string): void {
    const described = this.#described.peek(workerId);
    if (described) described.offer = null;
  }

  /** Notices of other processes may have been lost. */
  forgetOffers(): void {
    for (const described of this.#described.values()) described.offer = null;
  }
}
