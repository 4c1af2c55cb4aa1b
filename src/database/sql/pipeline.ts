import { Client, type QueryConfig, type QueryResult } from 'pg';
import { QueryFailedError, type DataSource, type EntityManager, type QueryRunner } from 'typeorm';
import type { StatementTracer } from './statement-tracer.js';

/** Prepared statements per connection; further texts are sent unprepared. */
const MAX_PREPARED = 500;

/** Size of the statements that are sent before the end of a turn, in bytes. */
const FLUSH_BYTES = 16 * 1024;

/** Both in one message, unprepared: that is less work for the server than two statements. */
const BEGIN = `begin; select date_trunc('milliseconds', clock_timestamp()) as now`;

const names = new Map<string, string>();

const pipelines = new WeakMap<QueryRunner, Pipeline>();

/**
 * A transaction that sends its statements in order without waiting for earlier results; small ones of one turn of the event
 * loop go out in one packet. Statements are prepared once per connection. After a failure the server skips the rest.
 */
export class Pipeline {
  #failure: { readonly error: unknown } | undefined;
  #isCorked = false;
  #startedAt: Promise<Date> | undefined;

  private constructor(
    private readonly client: Client,
    private readonly tracer: StatementTracer | undefined,
  ) {}

  /** The pipeline of a query runner, if it has one. */
  static of(runner: QueryRunner): Pipeline | undefined {
    return pipelines.get(runner);
  }

  /**
   * Runs `work` as one transaction, which commits after all its statements, awaited or not.
   * @param source whose connections have the driver's option `pipeline`
   * @throws the error of the first failed statement, else of `work`; as far as known, nothing is committed then
   */
  static async transaction<T>(
    source: DataSource,
    work: (manager: EntityManager, pipeline: Pipeline) => Promise<T>,
    tracer?: StatementTracer,
  ): Promise<T> {
    const runner = source.createQueryRunner();
    try {
      const client: unknown = await runner.connect();
      if (!(client instanceof Client)) throw new TypeError('the driver gave no connection of its own');
      const pipeline = new Pipeline(client, tracer);
      pipelines.set(runner, pipeline);
      return await pipeline.#run(() => work(runner.manager, pipeline));
    } finally {
      await runner.release();
    }
  }

  /** The database's clock when the transaction began, to the millisecond. @throws QueryFailedError */
  get startedAt(): Promise<Date> {
    this.#startedAt ??= this.#begin();
    return this.#startedAt;
  }

  /** Sends a statement. @throws QueryFailedError */
  send(text: string, values: readonly unknown[] = []): Promise<QueryResult<object>> {
    return this.#send<object>({ name: statementName(text), text, values: [...values] });
  }

  async #send<T extends object>(query: QueryConfig<unknown[]>): Promise<QueryResult<T>> {
    const { text, values = [] } = query;
    this.#cork();
    const answered = this.tracer?.begin(text);
    try {
      const sent = this.client.query<T>(query);
      this.#flush();
      const result = await sent;
      answered?.();
      return result;
    } catch (error) {
      const failed = queryFailed(text, values, error);
      answered?.(error);
      this.#failure ??= { error: failed };
      throw failed;
    }
  }

  /**
   * Adds statements that are not awaited: if one fails, the transaction fails. An error before sending must occur in the
   * current turn of the event loop. Those that wait for results of others must be awaited by the work: the commit does not wait for them.
   */
  also(statements: Promise<unknown>): void {
    statements.catch((error: unknown) => {
      this.#failure ??= { error };
    });
  }

  async #begin(): Promise<Date> {
    // The driver answers a list for two statements.
    const results = [await this.#send<{ now: Date }>({ text: BEGIN })].flat();
    const now = results.at(-1)?.rows[0]?.now;
    if (now === undefined) throw new Error('the database did not return its time');
    return now;
  }

  async #run<T>(work: () => Promise<T>): Promise<T> {
    this.also(this.startedAt);
    let result: T;
    try {
      result = await work();
      // Collects errors before sending: the server does not know of them and would commit the rest.
      await new Promise((resolve) => process.nextTick(resolve));
      this.#throwIfFailed();
    } catch (error) {
      await this.send('rollback').catch(() => undefined);
      this.#throwIfFailed();
      throw error;
    }
    // Its result comes last. In an aborted transaction it rolls back without an error.
    await this.send('commit').catch(() => undefined);
    this.#throwIfFailed();
    return result;
  }

  #throwIfFailed(): void {
    if (this.#failure) throw this.#failure.error;
  }

  /** Sends large statements at once: the server executes them while the next ones are built. */
  #flush(): void {
    const { stream } = this.client.connection;
    if (stream.writableLength < FLUSH_BYTES) return;
    stream.uncork();
    stream.cork();
  }

  #cork(): void {
    if (this.#isCorked) return;
    const { stream } = this.client.connection;
    this.#isCorked = true;
    stream.cork();
    process.nextTick(() => {
      this.#isCorked = false;
      stream.uncork();
    });
  }
}

/** The name under which connections prepare a statement; undefined: it is sent unprepared. */
export function statementName(text: string): string | undefined {
  const known = names.get(text);
  if (known !== undefined || names.size >= MAX_PREPARED) return known;
  const name = `s${names.size}`;
  names.set(text, name);
  return name;
}

export function queryFailed(text: string, values: readonly unknown[], error: unknown): QueryFailedError {
  return new QueryFailedError(text, [...values], error instanceof Error ? error : new Error(String(error)));
}
