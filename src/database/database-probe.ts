import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

/** The database did not answer a probe in time. */
export class ProbeTimeout extends Error {
  readonly code = 'ETIMEDOUT';

  constructor(timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms`);
  }
}

/**
 * Connects to the database and runs a statement, independently of all pools.
 * @returns undefined on success, otherwise a ProbeTimeout or the driver's error
 */
export async function probeDatabase(
  url: string,
  applicationName: string,
  timeoutMs: number,
): Promise<unknown> {
  const client = new Client({ connectionString: url, application_name: applicationName });
  client.on('error', () => undefined);
  const giveUp = new AbortController();
  const timeout = async (): Promise<ProbeTimeout> => {
    await sleep(timeoutMs, undefined, { signal: giveUp.signal });
    // After a stall of this process the timer fires before the answer in the socket is read.
    await nextTurn();
    await nextTurn();
    return new ProbeTimeout(timeoutMs);
  };
  const query = async (): Promise<void> => {
    await client.connect();
    await client.query('select 1');
  };
  const failure: unknown = await Promise.race([query(), timeout()]).catch((error: unknown) => error);
  giveUp.abort();
  if (failure === undefined) void endClient(client);
  else client.connection.stream.destroy();
  return failure;
}

/** Ends a connection; destroys its socket when the server does not close it in time. */
export async function endClient(client: Client, timeoutMs = 1_000): Promise<void> {
  const timer = setTimeout(() => client.connection.stream.destroy(), timeoutMs);
  await client.end().catch(() => undefined);
  clearTimeout(timer);
}
