import { randomUUID } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Notifications } from '../database/notifications.js';
import { SERVED_CHANNEL } from '../runs/idempotency/idempotency.repository.js';

/**
 * Whether other processes serve claims with keys. Such a commit notifies the other processes, at most once in five
 * seconds; a process that receives no notification knows that no such claim was served elsewhere.
 */
@Injectable()
export class ServedNotifications implements OnModuleDestroy {
  /**
   * Least time between two announcements of a process, and time for which a received one counts: longer than the first
   * plus the longest delay of a commit. In milliseconds.
   */
  readonly times = { announceEvery: 5_000, validFor: 20_000 };
  readonly #token = randomUUID();
  #announcedAt = -Infinity;
  #receivedAt = Infinity;
  #unsubscribe: (() => void) | undefined;

  constructor(
    @Inject(Notifications) private readonly notifications: Pick<Notifications, 'subscribe' | 'isListening'>,
  ) {}

  /** The payload that the commit of a claim announces if the claim is served; null: none. */
  announcement(): string | null {
    this.listen();
    return performance.now() - this.#announcedAt < this.times.announceEvery ? null : this.#token;
  }

  /** Whether no other process has served a claim with a key since the time, by `performance.now()`. */
  isQuietSince(time: number): boolean {
    return this.notifications.isListening(SERVED_CHANNEL) && time > this.#receivedAt + this.times.validFor;
  }

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
