import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { fence, heldRun } from '../../support/app/secrets.js';
import {
  KEYS,
  newSecretsKey,
  startTestApp,
  type TestAnswer,
  type TestApp,
} from '../../support/app/test-app.js';

const OLD = newSecretsKey();
const NEW = newSecretsKey();
/** More than two batches. */
const COUNT = 120;

const put = (service: TestApp, name: string, value: string): Promise<TestAnswer> =>
  service.send('PUT', `/secrets/${name}`, { body: { kind: 'opaque', value } });
const rotate = (service: TestApp): Promise<TestAnswer> => service.send('POST', '/secrets/rotate');

describe('the rotation of the keys of secrets', () => {
  /** Processes with the keys of each step: the old one, both, both with the new one first, the new one. */
  let old: TestApp;
  let added: TestApp;
  let first: TestApp;
  let second: TestApp;
  let last: TestApp;

  beforeAll(async () => {
    const start = (...keys: string[]): Promise<TestApp> =>
      startTestApp({
        env: { SERVICE_SECRETS_KEY: keys.join(','), SERVICE_WORKER_POOL: 'shared' },
        ...(old && { database: old.database }),
      });
    old = await start(OLD);
    added = await start(OLD, NEW);
    first = await start(NEW, OLD);
    second = await start(NEW, OLD);
    last = await start(NEW);
  });
  afterAll(async () => {
    for (const service of [last, second, first, added, old]) await service.close();
  });

  const fill = async (): Promise<void> => {
    for (let n = 0; n < COUNT; n += 1) await put(old, `s${n}`, `value ${n}`);
  };
  /** The values of all of these secrets, as a worker gets them. */
  const valuesFrom = async (service: TestApp, names: readonly string[]): Promise<TestAnswer> => {
    const id = await heldRun(first.send, { secrets: Object.fromEntries(names.map((name) => [name, name])) });
    return service.send('GET', `/runs/${id}/secrets`, { key: KEYS.worker, headers: fence() });
  };
  const names = Array.from({ length: COUNT }, (_, n) => `s${n}`);
  /** As many as a run may use. */
  const checked = names.slice(COUNT - 100);
  const values = Object.fromEntries(checked.map((name) => [name, name.replace('s', 'value ')]));
  const keyIds = (): Promise<{ id: string; n: number }[]> =>
    rows(
      old.dataSource,
      `select encode(substr(ciphertext, 1, 8), 'hex') as id, count(*)::integer as n from secrets group by 1`,
    );

  test('encrypts every secret with the first key, after which the old one is not needed', async () => {
    await fill();
    const listed = (await first.send('GET', '/secrets')).body;
    assert.deepEqual((await valuesFrom(added, checked)).body.env, values);
    assertError(
      await valuesFrom(last, ['s7']),
      503,
      "Secret 's7' cannot be decrypted: its key is not in SERVICE_SECRETS_KEY",
    );
    const answer = await rotate(first);
    assert.deepEqual([answer.status, answer.body], [200, { rotated: COUNT, remaining: 0 }]);
    assert.deepEqual((await valuesFrom(last, checked)).body.env, values);
    assert.deepEqual((await valuesFrom(added, checked)).body.env, values);
    assert.deepEqual((await first.send('GET', '/secrets')).body, listed);
    assert.deepEqual((await rotate(last)).body, { rotated: 0, remaining: 0 });
  });

  test('is in the audit log, an entry for each transaction, with the id of the new key', async () => {
    const { body } = await first.send('GET', '/audit?limit=10');
    const found = body.filter(({ action }: { action: string }) => action === 'secret.rotate');
    const [{ id } = { id: '' }] = await keyIds();
    assert.deepEqual(
      found.map(({ subject, after: is }: { subject: string; after: object }) => [subject, is]),
      [
        [id, { secrets: 20 }],
        [id, { secrets: 50 }],
        [id, { secrets: 50 }],
      ],
    );
  });

  test('by two processes at once, with replacements and deletions in between, loses and undoes nothing', async () => {
    await fill();
    const kept = names.slice(0, 100);
    const [one, two, ...rest] = await Promise.all([
      rotate(first),
      rotate(second),
      ...kept.slice(0, 50).map((name) => put(second, name, `new ${name}`)),
      ...names.slice(100).map((name) => first.send('DELETE', `/secrets/${name}`)),
    ]);
    for (const { status } of [one, two, ...rest]) assert.ok(status < 300, String(status));
    assert.equal(one.body.remaining + two.body.remaining, 0);
    assert.ok(one.body.rotated + two.body.rotated <= COUNT);
    assert.deepEqual(
      (await valuesFrom(last, kept)).body.env,
      Object.fromEntries(kept.map((name, n) => [name, n < 50 ? `new ${name}` : `value ${n}`])),
    );
    assert.equal((await keyIds()).length, 1);
    const { body } = await first.send('GET', '/secrets');
    assert.equal(body.length, kept.length);
  });

  test('leaves a secret whose key is unknown as it is, counts it as remaining and rotates the others', async () => {
    await put(old, 'a', 'old value');
    await put(old, 'z', 'old value');
    await execute(
      old.dataSource,
      `update secrets set ciphertext = '\\x00' || substr(ciphertext, 2) where name = 'a'`,
    );
    assert.deepEqual((await rotate(first)).body, { rotated: 1, remaining: 1 });
    assert.deepEqual((await valuesFrom(last, ['z'])).body.env, { z: 'old value' });
    assert.ok(first.logged.some(({ level, msg }) => level === 'warning' && msg === 'cannot rotate a secret'));
  });
});
