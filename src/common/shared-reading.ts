import { monotonicMs } from './monotonic-ms.js';

/** Longest pause, in milliseconds. */
const MAX_PAUSE_MS = 10_000;

/**
 * One value that concurrent requests read together. With `pauseFactor`, a pause of so many times the duration of a reading
 * follows it, at most ten seconds: with 9, readings of up to a second take a tenth of the time, whatever the number of clients.
 */
export class SharedReading<T> {
  /** What requests wait for that arrive now; undefined after it has begun. */
  #next: Promise<T> | undefined;
  /** Fulfilled when the next reading may begin. */
  #turn: Promise<void> = Promise.resolve();
  /** The newest reading, until the pause after it is over. */
  #newest: Promise<T> | undefined;

  /** @param onIdle called when a reading and its pause are over and no request waits for the next */
  constructor(
    private readonly read: () => Promise<T>,
    private readonly options: { readonly pauseFactor?: number; readonly onIdle?: () => void } = {},
  ) {}

  /**
   * The value of a reading that begins after this call, so it has every commit that was acknowledged before.
   * @throws the error of its reading
   */
  next(): Promise<T> {
    this.#next ??= this.#turn.then(() => this.#begin());
    return this.#next;
  }

  /** The value of the newest reading while it is under way or in the pause after it, else of a new one. @throws its error */
  newest(): Promise<T> {
    return this.#newest ?? this.next();
  }

  #begin(): Promise<T> {
    const { pauseFactor = 0, onIdle } = this.options;
    this.#next = undefined;
    const beganAt = monotonicMs();
    const reading = this.read();
    this.#newest = reading;
    const end = async (): Promise<void> => {
      const pauseMs = Math.min(MAX_PAUSE_MS, pauseFactor * (monotonicMs() - beganAt));
      if (pauseMs > 0) await new Promise((resolve) => void setTimeout(resolve, pauseMs).unref());
      this.#newest = undefined;
      if (this.#next === undefined) onIdle?.();
    };
    this.#turn = reading.then(end, end);
    return reading;
  }
}
