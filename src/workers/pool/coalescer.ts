import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicMs } from '../../common/monotonic-ms.js';

export interface CoalescerOptions<M, R> {
  /** Minimum time between the starts of two commits, in milliseconds. */
  readonly pauseMs: number;
  /** Items of one commit; the others wait for the next one. */
  readonly maxBatch: number;
  /** Bytes of one commit; a larger item is committed alone. */
  readonly maxBatchBytes: number;
  readonly maxWaiting: number;
  /** Bytes that may wait; a larger item waits only if it is the first. */
  readonly maxWaitingBytes: number;
  readonly weigh: (item: M) => number;
  /** Returns one result for each item, in order. */
  readonly commit: (items: readonly M[]) => Promise<readonly R[]>;
}

export class CoalescerFull extends Error {}

interface Waiting<M, R> {
  readonly item: M;
  readonly bytes: number;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Commits many small writes as few large ones, one commit at a time. The first item after a pause is committed at once;
 * later ones wait until the pause is over. A failed commit fails its own items only.
 */
export class Coalescer<M, R> {
  readonly #closing = new AbortController();
  #waiting: Waiting<M, R>[] = [];
  #waitingBytes = 0;
  #startedAt = -Infinity;
  #running: Promise<void> | undefined;

  constructor(private readonly options: CoalescerOptions<M, R>) {}

  /** Resolves with the result after the commit. @throws CoalescerFull, or the error of the commit */
  submit(item: M): Promise<R> {
    const { maxWaiting, maxWaitingBytes, weigh } = this.options;
    const bytes = weigh(item);
    const waiting = this.#waiting.length;
    const isTooLarge = waiting > 0 && this.#waitingBytes + bytes > maxWaitingBytes;
    if (waiting >= maxWaiting || isTooLarge) {
      return Promise.reject(new CoalescerFull(`${waiting} items are waiting already`));
    }
    return new Promise<R>((resolve, reject) => {
      this.#waiting.push({ item, bytes, resolve, reject });
      this.#waitingBytes += bytes;
      this.#running ??= this.#run();
    });
  }

  /** Commits waiting items, and from now on all items, without a pause. */
  async close(): Promise<void> {
    this.#closing.abort();
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    await Promise.resolve();
    const { signal } = this.#closing;
    while (this.#waiting.length > 0) {
      const pauseMs = this.#startedAt + this.options.pauseMs - monotonicMs();
      if (pauseMs > 0 && !signal.aborted) await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
      this.#startedAt = monotonicMs();
      await this.#commit(this.#nextBatch());
    }
    this.#running = undefined;
  }

  #nextBatch(): Waiting<M, R>[] {
    const { maxBatch, maxBatchBytes } = this.options;
    let bytes = 0;
    let size = 0;
    for (const next of this.#waiting) {
      if (size === maxBatch || (size > 0 && bytes + next.bytes > maxBatchBytes)) break;
      bytes += next.bytes;
      size += 1;
    }
    this.#waitingBytes -= bytes;
    return this.#waiting.splice(0, size);
  }

  async #commit(batch: readonly Waiting<M, R>[]): Promise<void> {
    let results: readonly R[];
    try {
      results = await this.options.commit(batch.map(({ item }) => item));
      if (results.length !== batch.length) throw new Error('a commit has not one result for each item');
    } catch (error) {
      for (const { reject } of batch) reject(error);
      return;
    }
    for (const [i, result] of results.entries()) batch[i]?.resolve(result);
  }
}
