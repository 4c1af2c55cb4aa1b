import type { OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import type { Notifications } from '../../database/notifications.js';

export type QueueNotifications = Pick<Notifications, 'subscribe' | 'isListening'>;

/**
 * Queued runs that not every claim gets. As long as there are none, no claim asks for them: every process learns of one by
 * its notification, and of one that it puts into the queue itself at once.
 */
export abstract class WithheldRuns implements OnModuleInit, OnModuleDestroy {
  #mayExist = true;
  /** Grows with each of these runs that becomes known. */
  #version = 0;
  #unsubscribe: (() => void) | undefined;

  /**
   * @param concerns whether a notification may be of such runs; null: notifications may have been lost
   * @param notifications without them every claim asks the database
   */
  protected constructor(
    private readonly channel: string,
    private readonly concerns: (text: string | null) => boolean,
    private readonly notifications?: QueueNotifications,
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notifications?.subscribe(this.channel, (text) => {
      if (this.concerns(text)) this.expect();
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  /** This process puts such a run into the queue, or another one did. */
  expect(): void {
    this.#version += 1;
    this.#mayExist = true;
  }

  get mayExist(): boolean {
    return this.#mayExist || !this.#isListening;
  }

  /** Read it before a query, for `foundNone`. */
  protected get version(): number {
    return this.#version;
  }

  /** A query that began at the version found that there are none. */
  protected foundNone(version: number): void {
    if (this.#isListening && version === this.#version) this.#mayExist = false;
  }

  get #isListening(): boolean {
    return this.#unsubscribe !== undefined && this.notifications?.isListening(this.channel) === true;
  }
}
