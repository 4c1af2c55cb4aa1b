import { untilWoken, type WaitEnds } from '../../common/waits/until-woken.js';
import type { CommitNotice } from './commit-notice.js';
import type { NoticeSource } from './commit-notices.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** Pause after a wake-up or a read: for each reader that went on, and at most. */
const PAUSE_PER_READER_MS = 1.5;
const MAX_PAUSE_MS = 150;

/**
 * A topic that readers wait for. It wakes them together: at once after a quiet time, else after a pause that grows with
 * the number of readers that went on last, so that changes share one query and readers one page.
 */
export class Topic {
  readers = 0;
  /** Grows with every announcement. Read it before a query, and pass it to `waitForChange` or `noteEnd` after it. */
  version = 0;
  readonly #waiters = new Set<{ readonly isDue: () => boolean; readonly wake: () => void }>();
  #lastPosition = 0;
  /** The last position when readers were woken. */
  #positionAtWake = 0;
  #missedAtVersion = 0;
  #pauseEndsAt = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  #end: { readonly position: number; readonly isEmpty: boolean; readonly version: number } | undefined;

  constructor(
    readonly name: string,
    private readonly isListening: () => boolean,
  ) {}

  /** @param position of the newest entry; without entries, every announcement is new */
  announce(position = Infinity): void {
    this.version += 1;
    this.#lastPosition = Math.max(this.#lastPosition, position);
    this.#wakeSoon();
  }

  /** Wakes all readers, because notices may have been missed or the topic has changed without one. */
  invalidate(): void {
    this.version += 1;
    this.#missedAtVersion = this.version;
    // A feed epoch may have begun, in which the topic is shorter.
    this.#lastPosition = 0;
    this.#positionAtWake = 0;
    this.#wakeSoon();
  }

  /**
   * Waits until there may be entries after a position, and it is the readers' turn.
   * @param since version from before the query that found nothing after the position
   * @returns false if the time was over or the signal aborted
   */
  waitForChange(after: number, since: number, ends: WaitEnds): Promise<boolean> {
    return this.#wait(
      () => this.version > since && (this.#lastPosition > after || this.#missedAtVersion > since),
      ends,
    );
  }

  /** The newest announced position; undefined if announcements may have been missed since a version. */
  announcedSince(version: number): number | undefined {
    return this.#missedAtVersion > version ? undefined : this.#lastPosition;
  }

  /**
   * If readers have just gone on, waits until all that wait are woken next. A reader that is behind them does not wait: the
   * pause must not limit how many pages it reads.
   * @param after its place; null for the oldest entry
   * @returns false as `waitForChange`
   */
  async waitForTurn(after: number | null, ends: WaitEnds): Promise<boolean> {
    if ((after ?? 0) < this.#positionAtWake) return true;
    if (this.isPaused) return this.#wait(() => true, ends);
    this.#pauseFor(1);
    return true;
  }

  /**
   * Remembers that nothing is after a place, until the next announcement.
   * @param after the place that was read from: the end itself, or null for the oldest entry
   * @param since version from before the query
   */
  noteEnd(after: number | null, end: number, since: number): void {
    if (since !== this.version || !this.isListening()) return;
    const isEmpty = after === null || (this.knowsEnd && this.#end?.isEmpty === true);
    this.#end = { position: end, isEmpty, version: since };
  }

  /** The end of the topic if it is known that nothing is after the place; null stands for the oldest entry. */
  endBehind(after: number | null): number | undefined {
    if (!this.knowsEnd || !this.isListening()) return undefined;
    const { position, isEmpty = false } = this.#end ?? {};
    return after === position || (after === null && isEmpty) ? position : undefined;
  }

  get knowsEnd(): boolean {
    return this.#end?.version === this.version;
  }

  cancelWake(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  get isPaused(): boolean {
    return monotonicMs() < this.#pauseEndsAt;
  }

  #pauseFor(readers: number): void {
    this.#pauseEndsAt = monotonicMs() + Math.min(MAX_PAUSE_MS, readers * PAUSE_PER_READER_MS);
  }

  async #wait(isDue: () => boolean, ends: WaitEnds): Promise<boolean> {
    const woken = await untilWoken<true>(ends, (wake) => {
      const waiter = { isDue, wake: () => wake(true) };
      this.#waiters.add(waiter);
      if (isDue()) this.#wakeSoon();
      return () => void this.#waiters.delete(waiter);
    });
    return woken !== null;
  }

  #wakeSoon(): void {
    if (this.#timer !== undefined || this.#waiters.size === 0) return;
    const inMs = this.#pauseEndsAt - monotonicMs();
    if (inMs <= 0) this.#wake();
    else this.#timer = setTimeout(() => this.#wake(), Math.ceil(inMs));
  }

  #wake(): void {
    this.cancelWake();
    const due = [...this.#waiters].filter(({ isDue }) => isDue());
    if (due.length === 0) return;
    this.#positionAtWake = this.#lastPosition;
    this.#pauseFor(due.length);
    for (const { wake } of due) wake();
  }
}

/** The parts of notices that name what others wait for; `topics` and `logs` with the position of the newest entry. */
export type NamingPart = 'topics' | 'logs' | 'runs' | 'freedWorkers';

/** Topics without readers whose end or pause is remembered. */
const MAX_REMEMBERED = 10_000;

/** Wakes those who wait for what one part of the commit notices names, without queries. */
export class Topics {
  /** Topics without readers are in the order in which they lost the last one. */
  readonly #topics = new Map<string, Topic>();
  #unsubscribe: (() => void) | undefined;

  constructor(
    private readonly notices: NoticeSource,
    private readonly part: NamingPart,
  ) {}

  get subscribed(): string[] {
    return [...this.#topics.values()].filter(({ readers }) => readers > 0).map(({ name }) => name);
  }

  /** Wakes the readers of a topic that has changed without a notice. */
  invalidate(name: string): void {
    this.#topics.get(name)?.invalidate();
  }

  /** Adds a reader to a topic. Every call needs one of `unsubscribe`. */
  subscribe(name: string): Topic {
    this.#unsubscribe ??= this.notices.subscribe((notice) => this.#receive(notice));
    const topic = this.#topics.get(name) ?? new Topic(name, () => this.notices.isListening);
    topic.readers += 1;
    this.#topics.set(name, topic);
    return topic;
  }

  unsubscribe(topic: Topic): void {
    topic.readers -= 1;
    if (topic.readers > 0) return;
    topic.cancelWake();
    this.#topics.delete(topic.name);
    if (!topic.knowsEnd && !topic.isPaused) return;
    this.#topics.set(topic.name, topic);
    if (this.#topics.size <= MAX_REMEMBERED) return;
    for (const { name, readers } of this.#topics.values()) {
      if (readers === 0) return void this.#topics.delete(name);
    }
  }

  close(): void {
    this.#unsubscribe?.();
    for (const topic of this.#topics.values()) topic.cancelWake();
  }

  #receive(notice: CommitNotice | null): void {
    if (notice === null) {
      for (const topic of this.#topics.values()) topic.invalidate();
      return;
    }
    const named = notice[this.part];
    if (named === undefined) return;
    if (Array.isArray(named)) for (const name of named) this.#topics.get(name)?.announce();
    else for (const [name, position] of Object.entries(named)) this.#topics.get(name)?.announce(position);
  }
}
