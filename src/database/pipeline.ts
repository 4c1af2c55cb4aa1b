import { Client } from 'pg';
import { QueryFailedError, type DataSource, type EntityManager, type QueryRunner } from 'typeorm';
import type { StatementTracer } from './statement-tracer.js';

/** What came of a statement: its rows, and how many it wrote or found. */
export interface StatementResult {
  readonly rows: object[];
  readonly rowCount: number | null;
}

/** Prepared statements of one connection at most; texts beyond them are sent unprepared. */
const MAX_PREPARED = 500;

const names = new Map<string, string>();

const pipelines = new WeakMap<QueryRunner, Pipeline>();

/**
 * A transaction whose statements are sent without waiting for the answers to those before them, in the order in which
 * they are handed in; what one turn of the event loop hands in goes out in one piece. Statements are prepared once a
 * connection. When one fails the server carries out none of those behind it.
 */
export class Pipeline {
  #failure: { readonly error: unknown } | undefined;
  #isCorked = false;

  private constructor(
    private readonly client: Client,
    private readonly tracer: StatementTracer | undefined,
  ) {}

  /** The pipeline that a query runner belongs to, if it does. */
  static of(runner: QueryRunner): Pipeline | undefined {
    return pipelines.get(runner);
  }

  /**
   * Runs `work` as one transaction. Everything that it hands in through its manager is committed, whether it waits for
   * the answers or not; the transaction is over when all of them have come.
   * @param tracer makes a span of every statement; nobody does unless it is given
   * @param source a data source whose connections take statements behind unanswered ones (`pipeline`)
   * @throws what the first statement that failed did, else what `work` throws; nothing was committed, as far as is known
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

  /** Sends a statement. @throws QueryFailedError */
  async send(text: string, values: readonly unknown[] = []): Promise<StatementResult> {
    this.#cork();
    const answered = this.tracer?.begin(text);
    try {
      const result = await this.client.query<object>({ name: nameOf(text), text, values: [...values] });
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
   * Hands statements in whose answers nobody waits for: they succeed, or the whole transaction fails. A failure before
   * anything is sent has to come by the end of the turn of the event loop.
   */
  also(statements: Promise<unknown>): void {
    statements.catch((error: unknown) => {
      this.#failure ??= { error };
    });
  }

  async #run<T>(work: () => Promise<T>): Promise<T> {
    this.also(this.send('begin'));
    let result: T;
    try {
      result = await work();
      // What could not even be sent is heard of by then; the server knows nothing of it, and would commit the rest.
      await new Promise((resolve) => process.nextTick(resolve));
      this.#throwIfFailed();
    } catch (error) {
      await this.send('rollback').catch(() => undefined);
      this.#throwIfFailed();
      throw error;
    }
    // Its answer comes after those to all others. In an aborted transaction it rolls back, without a word.
    await this.send('commit').catch(() => undefined);
    this.#throwIfFailed();
    return result;
  }

  #throwIfFailed(): void {
    if (this.#failure) throw this.#failure.error;
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

function nameOf(text: string): string | undefined {
  const known = names.get(text);
  if (known !== undefined || names.size >= MAX_PREPARED) return known;
  const name = `s${names.size}`;
  names.set(text, name);
  return name;
}

/** What a statement that failed is reported as. */
export function queryFailed(text: string, values: readonly unknown[], error: unknown): QueryFailedError {
  return new QueryFailedError(text, [...values], error instanceof Error ? error : new Error(String(error)));
}
