import { LRUCache } from 'lru-cache';
import { offerOf, type Offer } from '../runs/queue/lane.js';
import type { ClaimingWorker } from '../runs/scheduling-strategy.js';

/** Workers whose last heartbeat is remembered; the least recently seen is forgotten. */
const MAX_REMEMBERED = 20_000;

/** What a heartbeat said of its worker. */
interface Description extends Pick<ClaimingWorker, 'cpuCores' | 'ramMb'> {
  /** Tags, capabilities and GPUs. */
  readonly has: string;
  /** Null: another process may have heard of other ones since. */
  offer: Offer | null;
}

/** What the last heartbeat of each worker to this process said. */
export class WorkerDescriptions {
  readonly #described = new LRUCache<string, Description>({ max: MAX_REMEMBERED });

  /** Notes a heartbeat. @returns whether tags, capabilities or GPUs have changed, else whether resources have grown, since the last one */
  note(worker: ClaimingWorker): 'changed' | 'grown' | null {
    const { id, cpuCores, ramMb } = worker;
    const has = JSON.stringify([worker.tags, worker.capabilities, worker.gpus]);
    const before = this.#described.get(id);
    const isSame = before?.has === has;
    const offer = (isSame && before.offer) || offerOf(worker);
    this.#described.set(id, { has, cpuCores, ramMb, offer });
    if (before === undefined) return null;
    if (!isSame) return 'changed';
    return cpuCores > before.cpuCores || ramMb > before.ramMb ? 'grown' : null;
  }

  /** Which lanes the worker may serve; null: unknown. */
  offerOf(workerId: string): Offer | null {
    return this.#described.get(workerId)?.offer ?? null;
  }

  /** Another process has heard of other tags, capabilities or GPUs. */
  forgetOffer(workerId: string): void {
    const described = this.#described.peek(workerId);
    if (described) described.offer = null;
  }

  /** Notices of other processes may have been lost. */
  forgetOffers(): void {
    for (const described of this.#described.values()) described.offer = null;
  }
}
