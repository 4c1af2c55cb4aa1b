import { setImmediate as turnOfTheLoop } from 'node:timers/promises';

/** What became of one member of a group. */
export type MemberOutcome<R> = { readonly value: R } | { readonly error: unknown };

/** How a lane commits and what it may hold. */
export interface GroupLaneOptions<M, R> {
  /** Members of one group at most. */
  readonly maxGroup: number;
  /** Members that may wait; one more is refused. */
  readonly maxWaiting: number;
  /** What a member costs, in bytes. */
  readonly weigh: (member: M) => number;
  /** Bytes after which a group is full; a member that is heavier goes alone. */
  readonly maxGroupBytes: number;
  /** Bytes that may wait; a member that would exceed them is refused, unless nothing waits. */
  readonly maxWaitingBytes: number;
  /**
   * Commits a group as one; answers one outcome a member, in order. A throw: nothing was committed, as far as can be
   * known. It is told whether this is the first try of the group (1) or a later one.
   */
  readonly commit: (members: readonly M[], tries: number) => Promise<readonly MemberOutcome<R>[]>;
  /** True for errors that concern the database as a whole, so that trying members one by one is of no use. */
  readonly isFatal: (error: unknown) => boolean;
  /** True for errors after which the same group is worth another try. */
  readonly isRetryable: (error: unknown) => boolean;
  /** Told the size of every group and the seconds its commit took. */
  readonly onGroup?: (size: number, seconds: number) => void;
  /** A group that takes longer than this is stuck, in milliseconds: nobody waits behind it. Default 5 s. */
  readonly stuckAfterMs?: number;
}

/** How a lane is: it takes members, its present group takes too long, or there is no room. */
export type LaneState = 'ok' | 'stuck' | 'overloaded';

/** Why a lane does not take or keep a member. */
export const LANE_REFUSALS = ['stuck', 'overloaded'] as const satisfies readonly LaneState[];
export type LaneRefusal = (typeof LANE_REFUSALS)[number];

/** Thrown at a member that the lane does not take or does not keep waiting; nothing was done for it. */
export class LaneFull extends Error {
  constructor(
    readonly reason: LaneRefusal,
    message: string,
  ) {
    super(message);
  }
}

interface Waiting<M, R> {
  readonly member: M;
  readonly bytes: number;
  readonly resolve: (value: R) => void;
  readonly reject: (error: unknown) => void;
}

const RETRIES = 3;

const STUCK_AFTER_MS = 5_000;

/**
 * Group commit: while one group is being committed, the members that arrive form the next one. No timer is involved,
 * so a member that comes alone is committed at once. Each member gets its own outcome. When a group's commit throws,
 * its members are committed one by one, so that one poisonous member harms nobody else. While a group takes too long,
 * whoever waits behind it or comes is refused.
 */
export class GroupCommitQueue<M, R> {
  readonly #options: GroupLaneOptions<M, R>;
  #waiting: Waiting<M, R>[] = [];
  #waitingBytes = 0;
  #running: Promise<void> | undefined;
  #isStuck = false;

  constructor(options: GroupLaneOptions<M, R>) {
    this.#options = options;
  }

  /** Members that wait for the next group. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Bytes that they bring along. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Whether it takes members at the moment, and if not, why. */
  get state(): LaneState {
    const { maxWaiting, maxWaitingBytes } = this.#options;
    if (this.#isStuck) return 'stuck';
    const isFull = this.#waiting.length >= maxWaiting || this.#waitingBytes >= maxWaitingBytes;
    return isFull ? 'overloaded' : 'ok';
  }

  /**
   * Hands a member in; resolves with its result once its group is committed.
   * @throws LaneFull when too many wait or the present group is stuck; otherwise what the commit reported for this member
   */
  submit(member: M): Promise<R> {
    const { maxWaiting, maxWaitingBytes, weigh } = this.#options;
    const waiting = this.#waiting.length;
    const bytes = weigh(member);
    const isTooMuch = waiting > 0 && this.#waitingBytes + bytes > maxWaitingBytes;
    if (this.#isStuck) return Promise.reject(new LaneFull('stuck', 'a commit takes too long'));
    if (waiting >= maxWaiting || isTooMuch) {
      return Promise.reject(new LaneFull('overloaded', `${waiting} commands are waiting already`));
    }
    return new Promise<R>((resolve, reject) => {
      this.#waiting.push({ member, bytes, resolve, reject });
      this.#waitingBytes += bytes;
      this.#running ??= this.#run();
    });
  }

  /** Resolves when nothing waits and nothing is under way. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    // The members of one turn of the event loop go together, and those that they bring forth: the first of them does
    // not set off alone.
    await turnOfTheLoop();
    while (this.#waiting.length > 0) {
      const timer = setTimeout(() => this.#getStuck(), this.#options.stuckAfterMs ?? STUCK_AFTER_MS);
      await this.#commit(this.#nextGroup());
      clearTimeout(timer);
      this.#isStuck = false;
    }
    this.#running = undefined;
  }

  /** Refuses everybody who waits: when their turn would come is not known, and nothing was done for them yet. */
  #getStuck(): void {
    this.#isStuck = true;
    this.#waitingBytes = 0;
    for (const { reject } of this.#waiting.splice(0))
      reject(new LaneFull('stuck', 'a commit takes too long'));
  }

  #nextGroup(): Waiting<M, R>[] {
    const { maxGroup, maxGroupBytes } = this.#options;
    let bytes = 0;
    let size = 0;
    for (const next of this.#waiting) {
      if (size === maxGroup || (size > 0 && bytes + next.bytes > maxGroupBytes)) break;
      bytes += next.bytes;
      size += 1;
    }
    this.#waitingBytes -= bytes;
    return this.#waiting.splice(0, size);
  }

  async #commit(group: readonly Waiting<M, R>[]): Promise<void> {
    const outcomes = await this.#outcomes(group.map(({ member }) => member));
    group.forEach(({ resolve, reject }, i) => {
      const outcome = outcomes[i] ?? { error: new Error('the group has no outcome for this member') };
      if ('value' in outcome) resolve(outcome.value);
      else reject(outcome.error);
    });
  }

  async #outcomes(members: readonly M[]): Promise<readonly MemberOutcome<R>[]> {
    try {
      return await this.#attempt(members);
    } catch (error) {
      if (members.length === 1 || this.#options.isFatal(error)) return members.map(() => ({ error }));
    }
    const outcomes: MemberOutcome<R>[] = [];
    let fatal: { readonly error: unknown } | undefined;
    for (const member of members) {
      if (fatal) {
        outcomes.push(fatal);
        continue;
      }
      try {
        outcomes.push(...(await this.#attempt([member])));
      } catch (error) {
        outcomes.push({ error });
        if (this.#options.isFatal(error)) fatal = { error };
      }
    }
    return outcomes;
  }

  async #attempt(members: readonly M[]): Promise<readonly MemberOutcome<R>[]> {
    for (let tries = 1; ; tries += 1) {
      const start = performance.now();
      try {
        const outcomes = await this.#options.commit(members, tries);
        this.#options.onGroup?.(members.length, (performance.now() - start) / 1000);
        return outcomes;
      } catch (error) {
        if (tries > RETRIES || !this.#options.isRetryable(error)) throw error;
      }
    }
  }
}
