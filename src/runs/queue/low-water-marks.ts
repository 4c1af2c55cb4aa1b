/** Where a run stands in the queue: priority descending, then age, then id. */
export interface QueueSpot {
  readonly priority: number;
  readonly createdAt: Date;
  readonly id: string;
}

/**
 * A part of the queue. With `from`: the runs of one priority (`below` and `above` are its neighbours) from that spot on.
 * Without: the runs of all priorities between the two.
 */
export interface QueueStretch {
  /** All priorities of the stretch are less than this one. */
  readonly below: number;
  /** All priorities of the stretch are greater than this one. */
  readonly above: number;
  readonly from: QueueSpot | null;
}

/** What a look found in a stretch. */
export interface StretchHead {
  readonly stretch: QueueStretch;
  /** The first run that was there, in other hands or not; null for none. */
  readonly first: QueueSpot | null;
}

/** Claimed runs after which the marks are moved forward: so many deleted rows at most does a look pass. */
const RAISE_AFTER_RUNS = 200;

/** After fewer, once so long has passed, in milliseconds. */
const RAISE_AFTER_MS = 1_000;

/** Every so often, in milliseconds, a look goes by no mark, so that what was not told is found all the same. */
const DISTRUST_AFTER_MS = 10_000;

/** Looks that go by no mark take this part of the time at most. */
const DISTRUSTED_SHARE = 0.01;

/** Bounds that no priority, a 32-bit integer, reaches. */
const BELOW_ALL = 2 ** 31;
const ABOVE_ALL = -(2 ** 31) - 1;

export const LEAST_ID = '00000000-0000-0000-0000-000000000000';

/** The whole queue, without a mark. */
export const WHOLE_QUEUE: readonly QueueStretch[] = [{ below: BELOW_ALL, above: ABOVE_ALL, from: null }];

/** Priorities that have a mark, at most; of more, those that were used last. */
const MOST_LEVELS = 8;

/**
 * How far the queue is known to be empty, by priority: a claim that looks from these marks on does not pass the
 * deleted rows before them, of which there are as many as were claimed since vacuum last came by, and while a long
 * transaction is open as many as were claimed since its start.
 *
 * The rule: no run is in the queue before the mark of its priority, but one whose enqueuing has not been told here yet.
 * A mark moves forward only to what a look saw as the first run there is, or past runs that this process claimed and
 * that a later look does not see any more; it moves back at once for whatever is put before it (`put`). What is told
 * while a look is under way holds against what the look saw.
 */
export class LowWaterMarks {
  readonly #levels = new Map<number, QueueSpot>();
  /** The last run of each priority that a claim of this process has seen. */
  readonly #seen = new Map<number, QueueSpot>();
  readonly #underWay = new Set<QueueSpot[]>();
  readonly #clock: () => number;
  #isHeard: () => boolean = () => false;
  #claimed = 0;
  #raisedAt = 0;
  #checkedAt = 0;
  #checkAgainAt = 0;

  /** @param clock milliseconds that only grow */
  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** Whether what others put into the queue is told here at the moment, so that marks may be gone by. */
  get areKept(): boolean {
    const areKept = this.#isHeard();
    if (!areKept && this.#levels.size > 0) this.forget();
    return areKept;
  }

  /** @param isHeard whether what others put into the queue is told here at the moment */
  keptBy(isHeard: () => boolean): void {
    this.#isHeard = isHeard;
  }

  /** The parts of the queue that may hold runs, in its order. */
  get stretches(): QueueStretch[] {
    const levels = [...this.#levels].toSorted(([a], [b]) => b - a);
    const stretches: QueueStretch[] = [];
    let below = BELOW_ALL;
    for (const [priority, from] of levels) {
      if (below - priority > 1) stretches.push({ below, above: priority, from: null });
      stretches.push({ below: priority + 1, above: priority - 1, from });
      below = priority;
    }
    if (below - ABOVE_ALL > 1) stretches.push({ below, above: ABOVE_ALL, from: null });
    return stretches;
  }

  /** A run is being put into the queue, or has been by another process. */
  put(spot: QueueSpot): void {
    for (const told of this.#underWay) told.push(spot);
    const mark = this.#levels.get(spot.priority);
    if (mark && isBefore(spot, mark)) this.#levels.set(spot.priority, spot);
  }

  /** Whether enough has happened since the marks were moved forward. */
  get isRaiseDue(): boolean {
    const isLate = this.#claimed > 0 && this.#clock() - this.#raisedAt >= RAISE_AFTER_MS;
    return isLate || this.#claimed >= RAISE_AFTER_RUNS;
  }

  /** Whether it is time for a look that goes by no mark. */
  get isCheckDue(): boolean {
    return this.mayCheck && this.#clock() - this.#checkedAt >= DISTRUST_AFTER_MS;
  }

  /** Whether a look that goes by no mark is affordable. */
  get mayCheck(): boolean {
    return this.#clock() >= this.#checkAgainAt;
  }

  /** Carries out a look that goes by no mark; what it finds before a mark moves that back. */
  async check<S extends QueueSpot>(look: () => Promise<S[]>): Promise<S[]> {
    const began = this.#clock();
    const found = await look();
    this.#checkedAt = this.#clock();
    this.#checkAgainAt = this.#checkedAt + (this.#checkedAt - began) / DISTRUSTED_SHARE;
    for (const spot of found) this.put(spot);
    return found;
  }

  /** A claim found these runs and takes them, if its transaction is committed. */
  see(spots: readonly QueueSpot[]): void {
    this.#claimed += spots.length;
    for (const spot of spots) {
      const last = this.#seen.get(spot.priority);
      if (!last || isBefore(last, spot)) this.#seen.set(spot.priority, spot);
    }
  }

  /** Forgets everything: nothing is known of what was put into the queue. */
  forget(): void {
    // What looks under way have seen is not taken over.
    this.#underWay.clear();
    this.#levels.clear();
    this.#seen.clear();
  }

  /**
   * Moves the marks forward.
   * @param look finds the first run of each stretch, by one snapshot that shows nothing of what an unfinished
   * transaction of this process has removed
   */
  async raise(look: (stretches: readonly QueueStretch[]) => Promise<readonly StretchHead[]>): Promise<void> {
    const told: QueueSpot[] = [];
    this.#claimed = 0;
    this.#raisedAt = this.#clock();
    // What was seen before the look has been claimed for good when the look does not see it.
    const seen = new Map(this.#seen);
    this.#underWay.add(told);
    try {
      const heads = await look(this.stretches);
      if (!this.#underWay.has(told)) return;
      for (const { stretch, first } of heads) this.#raise(stretch, first, seen);
    } finally {
      this.#underWay.delete(told);
    }
    for (const spot of told) this.put(spot);
  }

  #raise({ from }: QueueStretch, first: QueueSpot | null, seen: ReadonlyMap<number, QueueSpot>): void {
    const reached = first ?? (from && (seen.get(from.priority) ?? null));
    if (!reached || (from && isBefore(reached, from))) return;
    this.#levels.delete(reached.priority);
    this.#levels.set(reached.priority, reached);
    if (this.#levels.size <= MOST_LEVELS) return;
    const [oldest] = this.#levels.keys();
    if (oldest !== undefined) this.#levels.delete(oldest);
  }
}

/** Whether the first of two runs of one priority comes before the other. */
function isBefore(a: QueueSpot, b: QueueSpot): boolean {
  const [at, bt] = [a.createdAt.getTime(), b.createdAt.getTime()];
  return at === bt ? a.id < b.id : at < bt;
}
