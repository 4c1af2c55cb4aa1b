import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { inspect } from 'node:util';
import { rows } from '../../../src/database/sql/sql.js';
import { fence, heldRun } from '../../support/app/secrets.js';
import { KEYS, newSecretsKey, type TestAnswer, type TestApp } from '../../support/app/test-app.js';
import { startTracedApp, type TracedApp } from '../../support/app/traced-app.js';

const KEY = newSecretsKey();
const VALUE = 'hunter2-of-the-tests';
const LOGIN = { server: 'registry.example.com', username: 'ci', password: `${VALUE}-login` };

/** Every form in which a value or the key may show. */
const FORMS = [VALUE, KEY].flatMap((text) => {
  const bytes = text === KEY ? Buffer.from(text, 'base64') : Buffer.from(text);
  return [text, bytes.toString('hex'), bytes.toString('base64').replace(/.{2}=*$/, '')];
});

describe('the value of a secret', () => {
  let service: TracedApp;
  /** Every answer but those of the one route that has values. */
  const answers: string[] = [];

  beforeAll(async () => {
    service = await startTracedApp({}, { env: { SERVICE_SECRETS_KEY: KEY } });
  });
  afterAll(() => service.close());

  const send: TestApp['send'] = async (...request): Promise<TestAnswer> => {
    const answer = await service.send(...request);
    answers.push(answer.text, JSON.stringify([...answer.headers]));
    return answer;
  };
  const put = (name: string, body: unknown): Promise<TestAnswer> =>
    send('PUT', `/secrets/${name}`, { body, headers: { 'Idempotency-Key': 'once' } });

  test('is in no table, log line, trace or other answer, whatever goes wrong on its way', async () => {
    await put('db', { kind: 'opaque', value: VALUE });
    await put('db', { kind: 'opaque', value: VALUE });
    await put('login', { kind: 'registry', value: LOGIN });
    for (const body of [
      `{"kind":"opaque","value":"${VALUE}`,
      `{"kind":"opaque","value":"${VALUE}","value":"${VALUE}"}`,
      `{"kind":"opaque","value":"${VALUE}\u0000"}`,
      `{"kind":"opaque","value":"${VALUE}\\ud800"}`,
      VALUE,
      { kind: VALUE, value: VALUE },
      { kind: 'registry', value: VALUE },
      { kind: 'registry', value: `{"server":"${VALUE}` },
      { kind: 'registry', value: { ...LOGIN, [VALUE]: VALUE } },
      { kind: 'registry', value: { ...LOGIN, server: `${VALUE} ${VALUE}`, username: [VALUE] } },
      { kind: 'map', value: VALUE },
      { kind: 'map', value: { [`${VALUE} `]: VALUE } },
      { kind: 'opaque', value: [VALUE] },
      { kind: 'opaque', value: VALUE.repeat(10_000) },
      { kind: 'opaque', value: VALUE.repeat(100_000) },
    ]) {
      const { status } = await put('refused', body);
      assert.ok(status >= 400 && status < 500, String(status));
    }
    await service.dataSource.query('alter table secrets rename to moved');
    assert.equal((await put('db', { kind: 'opaque', value: VALUE })).status, 500);
    await service.dataSource.query('alter table moved rename to secrets');

    const id = await heldRun(service.send, { secrets: { PASSWORD: 'db' }, image_pull_secret: 'login' });
    const read = await service.send('GET', `/runs/${id}/secrets`, { key: KEYS.worker, headers: fence() });
    assert.equal(read.body.env.PASSWORD, VALUE);
    assert.deepEqual(read.body.registry, LOGIN);
    await send('GET', `/runs/${id}/secrets`, { key: KEYS.worker, headers: fence('other') });
    await send('POST', '/secrets/rotate');
    await send('DELETE', '/secrets/login');
    await send('GET', `/runs/${id}/secrets`, { key: KEYS.worker, headers: fence() });
    for (const path of [
      `/runs/${id}`,
      `/runs/${id}/attempts`,
      '/secrets',
      '/audit',
      '/metrics',
      '/workers',
    ]) {
      assert.equal((await send('GET', path)).status, 200, path);
    }

    const tables = await rows<{ name: string }>(
      service.dataSource,
      `select tablename as name from pg_tables where schemaname = 'public'`,
    );
    assert.ok(tables.some(({ name }) => name === 'secrets'));
    const dumps = await Promise.all(
      tables.map(({ name }) =>
        rows<{ line: string }>(service.dataSource, `select t::text as line from "${name}" t`),
      ),
    );
    await service.collector.find('of the last request', ({ name }) => name === 'GET /workers');
    const spans = inspect(service.collector.spans, { depth: 9, maxArrayLength: null, maxStringLength: null });
    const log = JSON.stringify(service.logged);
    const everything = [...answers, log, spans, ...dumps.flat().map(({ line }) => line)].join('\n');
    assert.ok(spans.includes('/secrets/{name}'), spans);
    assert.ok(everything.includes('created a secret') && everything.includes('secret.create'));
    for (const form of FORMS) assert.ok(!everything.includes(form), form);
  });
});
