import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { ReservedConnection } from './reserved-connection.js';

/**
 * After so long without a statement, in milliseconds, an open commit gives its locks back: its process stands still, and
 * other processes wait behind it. Shorter than the longest wait for a lock, so that they do not even fail.
 */
const STANDSTILL_MS = 2_000;

/**
 * The journal's statements are prepared once and planned once, when the tables may still be empty: so their plans go by
 * indexes whatever the tables hold.
 */
const PLANNING = [
  'plan_cache_mode=force_generic_plan',
  'enable_seqscan=off',
  'enable_hashjoin=off',
  'enable_mergejoin=off',
  'jit=off',
];

/**
 * The connection that belongs to the journal alone, from the start of the application to its end; by then the journal
 * has to be idle.
 */
@Injectable()
export class JournalDataSource implements OnModuleInit, OnApplicationShutdown {
  readonly #connection: ReservedConnection;

  /** @param main the application's */
  constructor(main: DataSource) {
    this.#connection = new ReservedConnection(main, {
      idle_in_transaction_session_timeout: STANDSTILL_MS,
      pipeline: true,
      options: PLANNING.map((setting) => `-c ${setting}`).join(' '),
    });
  }

  get dataSource(): DataSource {
    return this.#connection.dataSource;
  }

  /** @throws what keeps it from connecting */
  async onModuleInit(): Promise<void> {
    await this.#connection.open();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#connection.close();
  }
}
