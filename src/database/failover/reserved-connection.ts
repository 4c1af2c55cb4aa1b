import { Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { readOptions, type OriginGate } from './connection-options.js';
import type { SessionSettings } from './session-settings.js';

interface ReservedOptions {
  readonly session?: SessionSettings;
  /** The driver sends statements without waiting for earlier results. */
  readonly pipeline?: boolean;
  /** Client-side timeout of a statement, in milliseconds. */
  readonly query_timeout?: number;
  /** Instead of the gate of the application's data source. */
  readonly originGate?: OriginGate;
}

/** Connections beside the application's pool, so that their user never waits behind reads. Opened on demand, replaced when lost. */
export class ReservedConnection {
  /** The options of the application's data source, with a pool of its own. */
  readonly dataSource: DataSource;
  #opening: Promise<DataSource> | undefined;

  /**
   * @param main the application's data source
   * @param options options of its connections that differ
   * @param poolSize how many connections
   */
  constructor(main: DataSource, { session, ...options }: ReservedOptions = {}, poolSize = 1) {
    const { extra, ...base } = readOptions(main);
    this.dataSource = new DataSource({
      ...base,
      poolSize,
      extra: { ...extra, ...options, session: { ...extra.session, ...session } },
    });
  }

  /** The connected data source. @throws the connection error; the next call tries again */
  open(): Promise<DataSource> {
    this.#opening ??= this.dataSource.initialize().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async close(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    if (this.dataSource.isInitialized) await this.dataSource.destroy();
  }
}

/**
 * An open commit without a statement for so long releases its locks: its process is stalled, and others wait for them.
 * Shorter than the lock timeout of the service's statements, so that these do not fail.
 */
const IDLE_IN_TRANSACTION_TIMEOUT_MS = 2_000;

/** The journal's statements are planned once, possibly on empty tables: these settings make the plans use indexes, in their order. */
const PLANNER_SETTINGS = {
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  jit: 'off',
};

/** Settings of the journal's sessions that differ from those of others. */
export const JOURNAL_SESSION: SessionSettings = {
  idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_TIMEOUT_MS,
  ...PLANNER_SETTINGS,
};

/** The connections of the journal, for groups and for groups of large requests. Open as long as the application. */
@Injectable()
export class JournalDataSource extends ReservedConnection implements OnModuleInit, OnApplicationShutdown {
  constructor(main: DataSource) {
    super(main, { session: JOURNAL_SESSION, pipeline: true }, 2);
  }

  async onModuleInit(): Promise<void> {
    await this.open();
  }

  async onApplicationShutdown(): Promise<void> {
    await this.close();
  }
}
