import assert from 'node:assert/strict';
import type { TestApp, TestAnswer } from './test-app.js';
import { hashApiKey } from '../../../src/auth/api-key.js';
import { AuthModule } from '../../../src/auth/auth.module.js';
import { Clock } from '../../../src/common/clock.js';
import { execute } from '../../../src/database/sql/sql.js';

/** A key as its creation answered it. */
export interface IssuedKey {
  readonly id: string;
  readonly name: string;
  readonly key: string;
  readonly prefix: string;
  readonly created_at: string;
  readonly expires_at: string | null;
}

/** Has a key made in the database. */
export async function issueKey(
  { send }: Pick<TestApp, 'send'>,
  scopes: readonly string[],
  more: Readonly<Record<string, unknown>> = {},
): Promise<IssuedKey> {
  const answer = await send('POST', '/api-keys', { body: { name: scopes.join('+'), scopes, ...more } });
  assert.equal(answer.status, 201, answer.text);
  return answer.body;
}

/** Revokes a key. */
export async function revokeKey({ send }: Pick<TestApp, 'send'>, { id }: IssuedKey): Promise<void> {
  assert.equal((await send('DELETE', `/api-keys/${id}`)).status, 204);
}

/** Moves a key's end into the past, as time does. */
export async function expireKey({ dataSource }: TestApp, { key }: IssuedKey): Promise<void> {
  const expired = `update api_keys set expires_at = now() - interval '1 second' where hash = $1`;
  assert.equal(await execute(dataSource, expired, [hashApiKey(key)]), 1);
}

/** The key with one wrong letter. */
export function mistype(key: string): string {
  return key.slice(0, -1) + (key.endsWith('a') ? 'b' : 'a');
}

/** Asks with a key for something that every key may have and that needs no database. */
export function knock({ send }: Pick<TestApp, 'send'>, key: string): Promise<TestAnswer> {
  return send('GET', '/metrics', { key });
}

/** Opens a stream of a topic where nothing happens; it is given up after two minutes. */
export function openStream({ url }: Pick<TestApp, 'url'>, key: string): Promise<Response> {
  const headers = { 'X-API-Key': key };
  return fetch(`${url}/feed/stream?topic=quiet`, { headers, signal: AbortSignal.timeout(120_000) });
}

/** Waits for the service to break an answer off. */
export async function assertBrokenOff(answer: Response): Promise<void> {
  await assert.rejects(answer.text(), (error) => error instanceof Error && error.name !== 'TimeoutError');
}

/** The clock of an application's keys and limits, in a test's hands. */
export class HeldClock {
  #now: number;
  /** Lets the application's clock go by itself again. */
  readonly release: () => void;

  constructor({ app }: TestApp) {
    const clock = app.select(AuthModule).get(Clock, { strict: true });
    const now = clock.now.bind(clock);
    this.release = () => void (clock.now = now);
    // A whole number: sums with fractions are rounded, so a minute would be a little less than 60,000 ms at times.
    this.#now = Math.ceil(clock.now());
    clock.now = () => this.#now;
  }

  /** @param ms milliseconds */
  advance(ms: number): void {
    this.#now += ms;
  }
}
