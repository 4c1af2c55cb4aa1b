import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { Drain } from '../common/http/server/drain.js';
import { AddressUnusable } from './listen-address.js';
import type { CleanupStack } from './cleanup-stack.js';
import { RunJournal } from '../runs/journal/run-journal.js';

/** How long finishing may take altogether, in milliseconds: the drain's limit and a moment for the last commit. */
const STOP_PATIENCE_MS = 11_000;

/**
 * Lets the application answer requests; closing `opened` finishes those that are under way.
 * @returns where it answers, without a trailing slash
 * @throws AddressUnusable; what the parts of the application fail with while they begin
 */
export async function listen(
  app: NestExpressApplication,
  { host, port }: { readonly host: string; readonly port: number },
  opened: CleanupStack,
): Promise<string> {
  // By itself, so that its failures (a database that goes away now) are not taken for the address's.
  await app.init();
  try {
    await app.listen(port, host);
  } catch (error) {
    throw new AddressUnusable(host, port, error);
  }
  opened.add(() => finishRequests(app));
  return urlOf(app);
}

async function finishRequests(app: NestExpressApplication): Promise<void> {
  const limit = sleep(STOP_PATIENCE_MS, undefined, { ref: false });
  await app.get(Drain).begin();
  // Requests that are cut off may leave commands behind whose database does not answer.
  await Promise.race([app.get(RunJournal).idle(), limit]);
}

function urlOf(app: NestExpressApplication): string {
  const address: AddressInfo | string | null = app.getHttpServer().address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP address');
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}
