import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { CircuitBreaker } from '../../database/circuit-breaker.js';
import { Notifications } from '../../database/notifications.js';
import { ReaperGrace } from './reaper-grace.js';

/** A channel that nobody sends to: the connection that listens is what tells. */
const CHANNEL = 'longshore_reaper';

/**
 * Tells the reaper's grace of outages of the database that no pass runs into: those that a request ran into, and those
 * that broke the connection that listens to the database.
 */
@Injectable()
export class OutageWatch implements OnModuleInit, OnModuleDestroy {
  #ends: readonly (() => void)[] = [];

  constructor(
    private readonly notifications: Notifications,
    private readonly breaker: CircuitBreaker,
    private readonly grace: ReaperGrace,
  ) {}

  /** Begins to watch. */
  onModuleInit(): void {
    let isConnected = false;
    const onClose = (): void => this.grace.disturb();
    this.breaker.on('close', onClose);
    this.#ends = [
      () => this.breaker.off('close', onClose),
      this.notifications.subscribe(CHANNEL, (payload) => {
        if (payload !== null) return;
        // The second time, and ever after, the connection had been lost.
        if (isConnected) this.grace.disturb();
        isConnected = true;
      }),
    ];
  }

  /** Ends the watch. */
  onModuleDestroy(): void {
    for (const end of this.#ends) end();
  }
}
