import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

/** The connection is closed after this time without a question, in milliseconds: an old one may be dead unnoticed. */
const IDLE_MS = 20_000;

const GOODBYE_MS = 500;

/** The database said nothing within the time it was given. */
export class ProbeSilent extends Error {
  readonly code = 'ETIMEDOUT';

  constructor(limitMs: number) {
    super(`no answer within ${Math.round(limitMs)} ms`);
  }
}

/** Asks the database whether it is there, on a connection of its own: how busy the pools are does not matter. */
export class DatabaseProbe {
  #client: Client | undefined;
  #idle: NodeJS.Timeout | undefined;

  constructor(
    private readonly url: string,
    private readonly applicationName: string,
  ) {}

  /**
   * Asks once; not to be called again before it has answered.
   * @param limitMs longest wait
   * @returns why the database did not answer (a ProbeSilent or what the driver says), undefined when it did
   */
  async ask(limitMs: number): Promise<unknown> {
    const started = performance.now();
    clearTimeout(this.#idle);
    let failure: unknown;
    if (this.#client) {
      failure = await this.#question(this.#client, limitMs, false);
      // A connection that was lost in the meantime says nothing about the server.
      if (failure === undefined || failure instanceof ProbeSilent) return failure;
    }
    return this.#question(this.#open(), Math.max(1, limitMs - (performance.now() - started)), true);
  }

  /** Closes the connection, if there is one. */
  async close(): Promise<void> {
    clearTimeout(this.#idle);
    const client = this.#client;
    this.#client = undefined;
    if (!client) return;
    const timer = setTimeout(() => client.connection.stream.destroy(), GOODBYE_MS);
    await client.end().catch(() => undefined);
    clearTimeout(timer);
  }

  #open(): Client {
    const client = new Client({
      connectionString: this.url,
      application_name: this.applicationName,
      keepAlive: true,
    });
    client.on('error', () => undefined);
    this.#client = client;
    return client;
  }

  async #question(client: Client, limitMs: number, isNew: boolean): Promise<unknown> {
    const failure = await within(limitMs, async () => {
      if (isNew) await client.connect();
      await client.query('select 1');
    });
    if (failure === undefined && this.#client === client) {
      this.#idle = setTimeout(() => void this.close(), IDLE_MS).unref();
      return undefined;
    }
    client.connection.stream.destroy();
    if (this.#client === client) this.#client = undefined;
    return failure;
  }
}

/** Answers what the work threw, a ProbeSilent when it took too long, undefined when it was done in time. */
async function within(limitMs: number, work: () => Promise<void>): Promise<unknown> {
  const giveUp = new AbortController();
  const done = work().then(
    () => undefined,
    (error: unknown) => error,
  );
  const late = sleep(limitMs, undefined, { signal: giveUp.signal }).then(
    async () => {
      // After a stall of this process the timer is due before the answer that lies in the socket has been read.
      await nextTurn();
      await nextTurn();
      return new ProbeSilent(limitMs);
    },
    () => undefined,
  );
  try {
    return await Promise.race([done, late]);
  } finally {
    giveUp.abort();
  }
}
