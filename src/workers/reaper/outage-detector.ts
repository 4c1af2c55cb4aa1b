import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { CircuitBreaker } from '../../database/failover/circuit-breaker.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import { GracePeriod } from './grace-period.js';

/** Restarts the grace period after outages between two passes: of a request, or of the listening connection. */
@Injectable()
export class OutageDetector implements OnModuleInit, OnModuleDestroy {
  #unsubscribe: readonly (() => void)[] = [];

  constructor(
    private readonly notices: CommitNotices,
    private readonly breaker: CircuitBreaker,
    private readonly grace: GracePeriod,
  ) {}

  onModuleInit(): void {
    const onClose = (): void => this.grace.restart();
    this.breaker.on('close', onClose);
    let wasConnected = false;
    this.#unsubscribe = [
      () => this.breaker.off('close', onClose),
      this.notices.subscribe((notice) => {
        if (notice !== null) return;
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
