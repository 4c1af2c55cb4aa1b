import { setTimeout as sleep } from 'node:timers/promises';

/** How members are gathered. */
export interface CoalescerOptions<M, R> {
  /** Least time between the beginnings of two commits, in milliseconds. */
  readonly pauseMs: number;
  /** Members of one commit at most; what is left over goes with the next one. */
  readonly maxBatch: number;
  /** Bytes after which a commit is full; a member that is heavier goes alone. */
  readonly maxBatchBytes: number;
  /** Members that may wait; one more is refused. */
  readonly maxWaiting: number;
  /** Bytes that may wait; a member that would exceed them is refused, unless nothing waits. */
  readonly maxWaitingBytes: number;
  /** What a member costs, in bytes. */
  readonly weigh: (member: M) => number;
  /** Commits the members as one; answers one result a member, in order. */
  readonly commit: (members: readonly M[]) => Promise<readonly R[]>;
}

/** Thrown at a member for which there is no room. */
export class CoalescerFull extends Error {}

interface Waiting<M, R> {
  readonly member: M;
  readonly bytes: number;
  readonly resolve: (result: R) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Commits many small writes as few large ones. A member that comes after a quiet time is committed at once, with those
 * of the same turn of the event loop; from then on members are gathered until the pause is over. Each is answered when
 * its commit is through; a commit that fails fails its own members only. One commit at a time.
 */
export class Coalescer<M, R> {
  readonly #options: CoalescerOptions<M, R>;
  readonly #hurry = new AbortController();
  #waiting: Waiting<M, R>[] = [];
  #waitingBytes = 0;
  #lastBegin = -Infinity;
  #running: Promise<void> | undefined;

  constructor(options: CoalescerOptions<M, R>) {
    this.#options = options;
  }

  /**
   * Hands a member in; resolves with its result once it is committed.
   * @throws CoalescerFull when too many wait; otherwise what the commit failed with
   */
  submit(member: M): Promise<R> {
    const { maxWaiting, maxWaitingBytes, weigh } = this.#options;
    const bytes = weigh(member);
    const waiting = this.#waiting.length;
    const isTooMuch = waiting > 0 && this.#waitingBytes + bytes > maxWaitingBytes;
    if (waiting >= maxWaiting || isTooMuch) {
      return Promise.reject(new CoalescerFull(`${waiting} members are waiting already`));
    }
    return new Promise<R>((resolve, reject) => {
      this.#waiting.push({ member, bytes, resolve, reject });
      this.#waitingBytes += bytes;
      this.#running ??= this.#run();
    });
  }

  /** Commits what waits without any further pause; from now on nothing is gathered. */
  async close(): Promise<void> {
    this.#hurry.abort();
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      await this.#pause();
      this.#lastBegin = performance.now();
      await this.#commit(this.#nextBatch());
    }
    this.#running = undefined;
  }

  async #pause(): Promise<void> {
    const ms = this.#lastBegin + this.#options.pauseMs - performance.now();
    const { signal } = this.#hurry;
    if (ms > 0 && !signal.aborted) await sleep(ms, undefined, { signal }).catch(() => undefined);
  }

  #nextBatch(): Waiting<M, R>[] {
    const { maxBatch, maxBatchBytes } = this.#options;
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
      results = await this.#options.commit(batch.map(({ member }) => member));
      if (results.length !== batch.length) throw new Error('a commit has not one result for each member');
    } catch (error) {
      for (const { reject } of batch) reject(error);
      return;
    }
    for (const [i, result] of results.entries()) batch[i]?.resolve(result);
  }
}
