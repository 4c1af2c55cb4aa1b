import { setTimeout as sleep } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { Drain } from '../common/http/server/drain.js';
import { RunJournal } from '../runs/journal/run-journal.js';
import type { CleanupStack } from './cleanup-stack.js';
import { AddressUnusable } from './listen-address.js';

/** Longer than the drain and the last commit together, in milliseconds. */
const STOP_TIMEOUT_MS = 11_000;

/**
 * Starts to accept requests. The cleanup finishes those in progress.
 * @returns the URL without a trailing slash
 * @throws AddressUnusable, or the error of the application's initialisation
 */
export async function listen(
  app: NestExpressApplication,
  { host, port }: { readonly host: string; readonly port: number },
  cleanup: CleanupStack,
): Promise<string> {
  // Apart from `listen`, so that its errors are not reported as those of the address.
  await app.init();
  try {
    await app.listen(port, host);
  } catch (error) {
    throw new AddressUnusable(host, port, error);
  }
  cleanup.add(async () => {
    const timeout = sleep(STOP_TIMEOUT_MS, undefined, { ref: false });
    await app.get(Drain).begin();
    // Aborted requests may leave commands behind whose database does not answer.
    await Promise.race([app.get(RunJournal).idle(), timeout]);
  });
  return urlOf(app);
}

function urlOf(app: NestExpressApplication): string {
  const address = app.getHttpServer().address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP address');
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}
