import { randomUUID } from 'node:crypto';
import { Inject, Injectable, Optional, type OnModuleDestroy } from '@nestjs/common';
import { Notifications } from '../../database/notifications.js';
import { SERVED_CHANNEL } from '../../runs/idempotency/idempotency.repository.js';

/** Intervals of the announcements, in milliseconds. */
export interface ServedTimes {
  /** Least time between two announcements of a process. */
  readonly announceEvery: number;
  /** Time for which a received announcement counts; longer than `announceEvery` plus the longest delay of a commit. */
  readonly validFor: number;
}

/** Injection token of other times than the usual. */
export const SERVED_TIMES = Symbol('SERVED_TIMES');

const USUAL_TIMES: ServedTimes = { announceEvery: 5_000, validFor: 20_000 };

/**
 * Whether other processes serve claims with keys. Such a commit notifies the other processes, at most once in
 * `announceEvery`; a process that receives no notification knows that no such claim was served elsewhere.
 */
@Injectable()
export class ServedNotifications implements OnModuleDestroy {
  readonly #token = randomUUID();
  readonly #times: ServedTimes;
  #announcedAt = -Infinity;
  #receivedAt = Infinity;
  #unsubscribe: (() => void) | undefined;

  constructor(
    @Inject(Notifications) private readonly notifications: Pick<Notifications, 'subscribe' | 'isListening'>,
    @Optional() @Inject(SERVED_TIMES) times?: ServedTimes,
  ) {
    this.#times = times ?? USUAL_TIMES;
  }

  /** The payload that the commit of a claim announces if the claim is served; null: none. */
  announcement(): string | null {
    this.listen();
    return performance.now() - this.#announcedAt < this.#times.announceEvery ? null : this.#token;
  }

  /** Whether no other process has served a claim with a key since the time, by `performance.now()`. */
  isQuietSince(time: number): boolean {
    return this.notifications.isListening(SERVED_CHANNEL) && time > this.#receivedAt + this.#times.validFor;
  }

  /** Subscribes, once. */
  listen(): void {
    this.#unsubscribe ??= this.notifications.subscribe(SERVED_CHANNEL, (payload) => {
      // The own announcement proves that it was committed.
      if (payload === this.#token) this.#announcedAt = performance.now();
      else this.#receivedAt = performance.now();
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
  }
}
