import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Log } from '../common/logging/logger.js';
import { CircuitBreaker } from './circuit-breaker.js';

/** Says whether the database is there, and logs when it goes and when it is back. */
@Injectable()
export class DatabaseAvailability {
  readonly #gate: CircuitBreaker;
  readonly #listeners = new Set<() => void>();
  readonly #lossListeners = new Set<() => void>();

  constructor(dataSource: DataSource, log: Log) {
    this.#gate = CircuitBreaker.of(dataSource);
    this.#gate.onChange = (change) => {
      if ('away' in change) {
        log.warn('the database is away', { reason: change.away.message });
        for (const listener of this.#lossListeners) listener();
        return;
      }
      log.info('the database is back', { afterMs: change.backAfterMs });
      for (const listener of this.#listeners) listener();
    };
  }

  /** Whether the database answers now; takes 1.5 s at most and no connection out of a pool. */
  answers(): Promise<boolean> {
    return this.#gate.check();
  }

  /** Whether the database is known to be away: everybody who wants a connection is refused at once. */
  get isAway(): boolean {
    return this.#gate.away !== undefined;
  }

  /** Has the listener called whenever the database goes away. */
  onLoss(listener: () => void): void {
    this.#lossListeners.add(listener);
  }

  /** Has the listener called whenever the database is back; the function that this answers ends that. */
  onReturn(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
