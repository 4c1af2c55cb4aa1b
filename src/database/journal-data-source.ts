import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';

/**
 * After so long without a statement, in milliseconds, an open commit gives its locks back: its process stands still, and
 * other processes wait behind it. Shorter than the longest wait for a lock, so that they do not even fail.
 */
const STANDSTILL_MS = 2_000;

/**
 * One connection that belongs to the journal alone, so that commits never wait behind reads for one. It is opened when
 * the application starts, replaced when it is lost, and closed with the application; by then the journal has to be idle.
 */
@Injectable()
export class JournalDataSource implements OnModuleInit, OnApplicationShutdown {
  /** Of the same kind as the application's, but for its size. */
  readonly dataSource: DataSource;

  /** @param main the application's; its options are taken over */
  constructor(main: DataSource) {
    const { options } = main;
    if (options.type !== 'postgres') throw new TypeError('the journal writes to PostgreSQL only');
    const extra: object = { ...options.extra, idle_in_transaction_session_timeout: STANDSTILL_MS };
    this.dataSource = new DataSource({ ...options, poolSize: 1, extra });
  }

  /** @throws what keeps it from connecting */
  async onModuleInit(): Promise<void> {
    await this.dataSource.initialize();
  }

  async onApplicationShutdown(): Promise<void> {
    if (this.dataSource.isInitialized) await this.dataSource.destroy();
  }
}
