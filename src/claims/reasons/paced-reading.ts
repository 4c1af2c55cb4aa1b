/** Length of a pause, as a multiple of the time that the reading before it took. */
const PAUSE_FACTOR = 9;

/** Longest pause, in milliseconds. */
const MAX_PAUSE_MS = 10_000;

/**
 * Answers concurrent requests for one report with one reading. After each reading there is a pause of nine times its
 * duration, at most ten seconds: readings of up to a second take a tenth of the time, whatever the number of clients. A reading begins after
 * the requests that it answers, so they see every commit that was acknowledged before they arrived. `latest` does not wait for a pause.
 */
export class PacedReading<T> {
  /** What requests wait for that arrive now; undefined after it has begun. */
  #next: Promise<T> | undefined;
  /** Fulfilled when the next reading may begin. */
  #turn: Promise<unknown> = Promise.resolve();
  /** The newest reading, until the pause after it is over. */
  #newest: Promise<T> | undefined;

  constructor(private readonly read: () => Promise<T>) {}

  /** The report. @throws the error of its reading */
  get(): Promise<T> {
    this.#next ??= this.#turn.then(() => this.#begin());
    return this.#next;
  }

  /** The report of the newest reading if it may not be repeated yet, else of a new one. @throws the error of its reading */
  latest(): Promise<T> {
    return this.#newest ?? this.get();
  }

  #begin(): Promise<T> {
    this.#next = undefined;
    const beganAt = performance.now();
    const reading = this.read();
    this.#newest = reading;
    this.#turn = reading
      .catch(() => undefined)
      .then(() => pause(Math.min(MAX_PAUSE_MS, PAUSE_FACTOR * (performance.now() - beganAt))))
      .finally(() => {
        this.#newest = undefined;
      });
    return reading;
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms).unref());
}
