import { DataSource } from 'typeorm';

/**
 * One connection beside the application's pool, so that what it is for never waits behind reads. It is opened on demand
 * and replaced when it is lost; whoever has it closes it.
 */
export class ReservedConnection {
  /** Of the same kind as the application's, but for its size. */
  readonly dataSource: DataSource;
  #opening: Promise<DataSource> | undefined;

  /**
   * @param main the application's; its options are taken over
   * @param options parameters of the connection that differ
   */
  constructor(main: DataSource, options: Readonly<Record<string, number | boolean | string>> = {}) {
    const base = main.options;
    if (base.type !== 'postgres') throw new TypeError('only PostgreSQL is connected to');
    const extra: object = { ...base.extra, ...options };
    this.dataSource = new DataSource({ ...base, poolSize: 1, extra });
  }

  /** The data source, connected. @throws what keeps it from connecting; the next call tries again */
  open(): Promise<DataSource> {
    this.#opening ??= this.dataSource.initialize().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  /** Closes the connection, if it was opened. */
  async close(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    if (this.dataSource.isInitialized) await this.dataSource.destroy();
  }
}
