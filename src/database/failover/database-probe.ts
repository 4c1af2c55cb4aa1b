import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseServers } from './service-client.js';

/** The database did not answer a probe in time. */
export class ProbeTimeout extends Error {
  readonly code = 'ETIMEDOUT';

  constructor(timeoutMs: number) {
    super(`no answer within ${timeoutMs} ms`);
  }
}

/**
 * Connects to the database, independently of all pools.
 * @returns undefined on success, otherwise a ProbeTimeout or the driver's error
 */
export async function probeDatabase(servers: DatabaseServers, timeoutMs: number): Promise<unknown> {
  const giveUp = new AbortController();
  const timeout = async (): Promise<ProbeTimeout> => {
    await sleep(timeoutMs, undefined, { signal: giveUp.signal });
    // After a stall of this process the timer fires before the answer in the socket is read.
    await nextTurn();
    await nextTurn();
    return new ProbeTimeout(timeoutMs);
  };
  const failure: unknown = await Promise.race([servers.probe(giveUp.signal), timeout()]).catch(
    (error: unknown) => error,
  );
  giveUp.abort();
  return failure;
}
