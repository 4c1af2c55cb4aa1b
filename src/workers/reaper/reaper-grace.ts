import type { ReaperClock } from './reaper-clock.js';

/**
 * A pause of the process may stay unnoticed for two of these parts of the worker timeout: one between two looks, one on
 * top.
 */
const PARTS = 8;
/** Ordinary lateness of timers, in milliseconds, whatever the worker timeout is. */
const LEAST_TOLERANCE_MS = 100;

/** How often to look for pauses, in milliseconds. */
export function lookIntervalMs(timeoutMs: number): number {
  return Math.max(1, timeoutMs / PARTS);
}

/**
 * When the reaper may judge workers: only after one whole worker timeout in which they could have reported. That time
 * begins anew when the server begins to listen, when this process had been paused (stopped, suspended, its event loop
 * held up), when the database had been away, and when a clock by which heartbeats are stamped had jumped ahead.
 *
 * A pause shows as a gap between two looks, so a scheduled job looks every `lookEveryMs`. Unnoticed pauses are shorter
 * than a quarter of the worker timeout.
 */
export class ReaperGrace {
  /** How often to look, in milliseconds. */
  readonly lookEveryMs: number;
  readonly #toleranceMs: number;
  #seen: { steady: number; wall: number } | undefined;
  #database: { readonly steady: number; readonly time: number } | undefined;
  #isDatabaseAway = false;
  #undisturbedSince = 0;

  /** @param timeoutMs worker timeout in milliseconds */
  constructor(
    readonly timeoutMs: number,
    private readonly clock: ReaperClock,
  ) {
    this.lookEveryMs = lookIntervalMs(timeoutMs);
    this.#toleranceMs = Math.max(timeoutMs / PARTS, LEAST_TOLERANCE_MS);
  }

  /** Whether the server listens. */
  get hasBegun(): boolean {
    return this.#seen !== undefined;
  }

  /** The server has begun to listen. */
  begin(): void {
    this.#seen = this.clock.now();
    this.#undisturbedSince = this.#seen.steady;
  }

  /** Called every `lookEveryMs` while the server listens: begins at the first call, notices pauses at later ones. */
  watch(): void {
    if (this.hasBegun) this.look();
    else this.begin();
  }

  /** Something that kept workers from reporting has just ended. */
  disturb(): void {
    if (this.#seen) this.begin();
  }

  /** The database did not do its work; nobody is judged until it has answered again, and one timeout more. */
  databaseFailed(): void {
    this.#isDatabaseAway = true;
  }

  /** Notices whether this process has been paused since the last look. */
  look(): void {
    if (!this.#seen) return;
    const now = this.clock.now();
    const gap = Math.max(now.steady - this.#seen.steady, now.wall - this.#seen.wall);
    if (gap > this.lookEveryMs + this.#toleranceMs) this.begin();
    else this.#seen = now;
  }

  /**
   * The database has told its time. Notices the end of an outage, an answer that took so long that heartbeats may have
   * failed, and whether the database's clock, which stamps the heartbeats in a shared pool, has jumped ahead.
   * @param askedAt steady time at which it was asked
   */
  databaseAnswered(time: Date, askedAt: number): void {
    const { steady } = this.clock.now();
    const before = this.#database;
    this.#database = { steady, time: time.getTime() };
    const jump = before ? time.getTime() - before.time - (steady - before.steady) : 0;
    if (this.#isDatabaseAway || jump > this.#toleranceMs || steady - askedAt > this.#toleranceMs)
      this.disturb();
    this.#isDatabaseAway = false;
  }

  /** Whether workers may be judged at this instant. */
  isOver(): boolean {
    this.look();
    return this.remainingMs() <= 0;
  }

  /** Milliseconds until workers may be judged, if nothing comes between; Infinity before the server listens, and while the database is away. */
  remainingMs(): number {
    if (!this.#seen || this.#isDatabaseAway) return Infinity;
    return Math.max(0, this.#undisturbedSince + this.timeoutMs - this.clock.now().steady);
  }
}
