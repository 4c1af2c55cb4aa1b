import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Notifications } from '../../database/notifications.js';
import { ReaperGrace } from './reaper-grace.js';

/** A channel that nobody sends to: listening is what tells of the connection. */
const CHANNEL = 'longshore_reaper';

/** Tells the reaper's grace of outages of the database that no pass runs into, by the connection that listens to it. */
@Injectable()
export class OutageWatch implements OnModuleInit, OnModuleDestroy {
  #unsubscribe: () => void = () => undefined;

  constructor(
    private readonly notifications: Notifications,
    private readonly grace: ReaperGrace,
  ) {}

  /** Begins to watch. */
  onModuleInit(): void {
    let isConnected = false;
    this.#unsubscribe = this.notifications.subscribe(CHANNEL, (payload) => {
      if (payload !== null) return;
      // The second time, and ever after, the connection had been lost.
      if (isConnected) this.grace.disturb();
      isConnected = true;
    });
  }

  /** Ends the watch. */
  onModuleDestroy(): void {
    this.#unsubscribe();
  }
}
