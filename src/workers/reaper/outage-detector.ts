import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { CircuitBreaker } from '../../database/connections/circuit-breaker.js';
import { Notifications } from '../../database/notifications.js';
import { GracePeriod } from './grace-period.js';

/** A channel without senders: only the loss of its connection matters. */
const CHANNEL = 'longshore_reaper';

/** Restarts the grace period after outages between two passes: of a request, or of the listening connection. */
@Injectable()
export class OutageDetector implements OnModuleInit, OnModuleDestroy {
  #unsubscribe: readonly (() => void)[] = [];

  constructor(
    private readonly notifications: Notifications,
    private readonly breaker: CircuitBreaker,
    private readonly grace: GracePeriod,
  ) {}

  onModuleInit(): void {
    const onClose = (): void => this.grace.restart();
    this.breaker.on('close', onClose);
    let wasConnected = false;
    this.#unsubscribe = [
      () => this.breaker.off('close', onClose),
      this.notifications.subscribe(CHANNEL, (payload) => {
        if (payload !== null) return;
        // null announces a connection; from the second time on, the one before was lost.
        if (wasConnected) this.grace.restart();
        wasConnected = true;
      }),
    ];
  }

  onModuleDestroy(): void {
    for (const end of this.#unsubscribe) end();
  }
}
