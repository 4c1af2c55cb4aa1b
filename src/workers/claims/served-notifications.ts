import { randomUUID } from 'node:crypto';
import { Inject, Injectable, Optional, type OnModuleDestroy } from '@nestjs/common';
import { Notifications } from '../../database/notifications.js';
import { SERVED_CHANNEL } from '../../runs/idempotency/idempotency.repository.js';

/** When processes tell each other that they hand runs out, in milliseconds. */
export interface ServedTimes {
  /** What a process hands out within this time of its last announcement it does not announce. */
  readonly tellEvery: number;
  /** For so long a process believes that another one hands runs out; longer by all that may delay a commit. */
  readonly believe: number;
}

/** Injection token of other times than the usual. */
export const SERVED_TIMES = Symbol('SERVED_TIMES');

const USUAL_TIMES: ServedTimes = { tellEvery: 5_000, believe: 20_000 };

/**
 * Knows whether other processes hand runs out to claims with keys. A commit that does so tells the others, but not more
 * often than every few seconds: a busy process pays next to nothing for it, and one that hears nothing knows that no
 * such claim was served elsewhere.
 */
@Injectable()
export class ServedNotifications implements OnModuleDestroy {
  readonly #token = randomUUID();
  readonly #times: ServedTimes;
  #toldAt = -Infinity;
  #heardAt = Infinity;
  #unsubscribe: (() => void) | undefined;

  constructor(
    @Inject(Notifications) private readonly notifications: Pick<Notifications, 'subscribe' | 'hears'>,
    @Optional() @Inject(SERVED_TIMES) times?: ServedTimes,
  ) {
    this.#times = times ?? USUAL_TIMES;
  }

  /** What the commit of a claim that is handed in now has to announce if it is served; null: nothing. */
  announcement(): string | null {
    this.listen();
    return performance.now() - this.#toldAt < this.#times.tellEvery ? null : this.#token;
  }

  /** Whether no other process has served a claim with a key since the time, by `performance.now()`. */
  isQuietSince(time: number): boolean {
    return this.notifications.hears(SERVED_CHANNEL) && time > this.#heardAt + this.#times.believe;
  }

  /** Begins to listen, unless it does already. */
  listen(): void {
    this.#unsubscribe ??= this.notifications.subscribe(SERVED_CHANNEL, (payload) => this.#hear(payload));
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
  }

  #hear(payload: string | null): void {
    // Its own announcement proves that it was committed.
    if (payload === this.#token) this.#toldAt = performance.now();
    else this.#heardAt = performance.now();
  }
}
