import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Log } from '../../common/logging/logger.js';
import { readOptions } from './connection-options.js';
import { OriginGate } from './origin-gate.js';
import { ReservedConnection } from './reserved-connection.js';
import type { SqlExecutor } from '../sql/sql.js';
import { DatabaseUnreachable } from './unavailable.js';
import { detectPromotion, readOrigin, type FeedEpoch } from './detect-restore.js';

/** An epoch writes a row per topic: it may take longer than other statements. In milliseconds. */
const EPOCH_TIMEOUT_MS = 300_000;

/**
 * Checks every new connection before its first use: when it leads to a standby that was promoted, a feed epoch begins before
 * anything is read or written there. The standby may lack events, whose positions new events take. See docs/adr/025-promotions.md.
 */
@Injectable()
export class PromotionCheck implements OnModuleInit {
  readonly #gate: OriginGate;
  /** Undefined until the first check. */
  #epochs: readonly FeedEpoch[] | undefined;
  #detection: Promise<void> | undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly log: Log,
  ) {
    this.#gate = readOptions(dataSource).extra.originGate;
    this.#gate.use((client) => this.#check(client));
  }

  /** The feed epochs of the database that all connections lead to, oldest first. */
  get epochs(): readonly FeedEpoch[] {
    return this.#epochs ?? [];
  }

  /** Checks the connection that the start has opened. */
  onModuleInit(): Promise<void> {
    return this.#check(this.dataSource);
  }

  /** @throws DatabaseUnreachable when the connection leads to another database than this process has come to */
  async #check(connection: SqlExecutor): Promise<void> {
    let { isKnown, epochs } = await readOrigin(connection);
    if (!isKnown) {
      this.#detection ??= this.#detect().finally(() => (this.#detection = undefined));
      await this.#detection;
      ({ isKnown, epochs } = await readOrigin(connection));
    }
    if (!isKnown || this.#isBefore(epochs)) {
      throw new DatabaseUnreachable('the connection leads to another database than the others');
    }
    this.#adopt(epochs);
  }

  /** Whether the database lacks the newest epochs, as the primary that was replaced does. */
  #isBefore(epochs: readonly FeedEpoch[]): boolean {
    const known = this.epochs;
    return epochs.length < known.length && epochs.every(({ token }, n) => token === known[n]?.token);
  }

  async #detect(): Promise<void> {
    const connection = new ReservedConnection(this.dataSource, {
      // Unchecked: the check waits for it.
      originGate: new OriginGate(),
      query_timeout: EPOCH_TIMEOUT_MS,
      session: { statement_timeout: EPOCH_TIMEOUT_MS, lock_timeout: EPOCH_TIMEOUT_MS },
    });
    try {
      const begun = await detectPromotion(await connection.open());
      if (begun) this.log.info('began a feed epoch', { ...begun });
    } finally {
      await connection.close();
    }
  }

  /** Takes the newest epoch, and cuts connections of before in the same turn: none of their answers gets a cursor of it. */
  #adopt(epochs: readonly FeedEpoch[]): void {
    const before = this.#epochs;
    this.#epochs = epochs;
    if (before === undefined || before.at(-1)?.token === epochs.at(-1)?.token) return;
    this.#gate.cutAdmitted();
    this.log.warn('the database is another one than before, most likely a promoted standby', {
      epoch: epochs.at(-1)?.number,
    });
  }
}
