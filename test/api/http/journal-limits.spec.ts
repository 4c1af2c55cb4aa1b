import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { issueKey } from '../../support/app/api-keys.js';
import { Scrape } from '../../support/monitoring/scrape.js';
import { KEYS, startTestApp, type TestAnswer, type TestApp } from '../../support/app/test-app.js';

const OVER_SHARE =
  'Too many requests of this API key are waiting: SERVICE_JOURNAL_WAITING_PER_KEY is reached';
const OVERLOADED = 'Too many requests are waiting: SERVICE_JOURNAL_WAITING_BYTES is reached';

async function withService(
  env: Readonly<Record<string, string>>,
  use: (service: TestApp) => Promise<void>,
): Promise<void> {
  const service = await startTestApp({ env });
  try {
    await use(service);
  } finally {
    await service.close();
  }
}

/** Blocks the commits of a run until the action ends. */
async function blocking<T>({ database }: TestApp, runId: string, action: () => Promise<T>): Promise<T> {
  const holder = database.dataSource.createQueryRunner();
  await holder.startTransaction();
  await holder.query('select 1 from runs where id = $1 for update', [runId]);
  try {
    return await action();
  } finally {
    await holder.rollbackTransaction();
    await holder.release();
  }
}

async function untilBlocked({ database }: TestApp): Promise<void> {
  for (let blocked = 0; blocked === 0;) {
    const found = await rows(
      database.dataSource,
      `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    );
    blocked = found.length;
  }
}

async function untilWaiting(service: TestApp, commands: number): Promise<void> {
  for (;;) {
    const scrape = new Scrape((await service.send('GET', '/metrics')).text);
    if (scrape.value('longshore_journal_waiting_commands') === commands) return;
  }
}

describe('requests that wait for a commit', () => {
  test('of one key are limited: 429 names the limit, and other keys go on', () =>
    withService({ SERVICE_JOURNAL_WAITING_PER_KEY: '2' }, async (service) => {
      const { send } = service;
      const other = await issueKey(service, ['client']);
      const create = (key: string): Promise<TestAnswer> =>
        send('POST', '/runs', { key, body: { image: 'i' } });
      const { body: run } = await create(KEYS.client);
      const waiting = await blocking(service, run.id, async () => {
        const cancelled = send('POST', `/runs/${run.id}/cancel`, { key: KEYS.client });
        await untilBlocked(service);
        const creations = [create(KEYS.client), create(KEYS.client)];
        await untilWaiting(service, 2);
        const refused = await create(KEYS.client);
        assertError(refused, 429, OVER_SHARE);
        assert.equal(refused.headers.get('retry-after'), '1');
        creations.push(create(other.key));
        await untilWaiting(service, 3);
        return { cancelled, creations };
      });
      assert.equal((await waiting.cancelled).status, 200);
      for (const answer of await Promise.all(waiting.creations)) assert.equal(answer.status, 201);
      const metrics = new Scrape((await send('GET', '/metrics')).text);
      assert.equal(metrics.value('longshore_journal_refused_commands_total', { reason: 'share' }), 1);
      const limit = 'SERVICE_JOURNAL_WAITING_PER_KEY';
      assert.equal(metrics.value('longshore_refused_total', { limit }), 1);
    }));

  test('are all answered with their run, also when the runs of one commit come to many bytes', () =>
    withService({ SERVICE_MAX_ANSWER_BYTES: '4096' }, async (service) => {
      const { send } = service;
      const inputs = { text: 'x'.repeat(3000) };
      const create = async (): Promise<string> =>
        (await send('POST', '/runs', { key: KEYS.client, body: { image: 'i', inputs } })).body.id;
      const [first = '', ...ids] = await Promise.all(Array.from({ length: 13 }, create));
      const cancel = (id: string): Promise<TestAnswer> =>
        send('POST', `/runs/${id}/cancel`, { key: KEYS.client });
      const waiting = await blocking(service, first, async () => {
        const blocked = cancel(first);
        await untilBlocked(service);
        const answers = ids.map(cancel);
        await untilWaiting(service, ids.length);
        return [blocked, ...answers];
      });
      for (const [at, { status, body }] of (await Promise.all(waiting)).entries()) {
        assert.equal(status, 200);
        assert.deepEqual([body.id, body.state, body.inputs], [[first, ...ids][at], 'CANCELLED', inputs]);
        assert.deepEqual(
          body.events.map(({ type }: { type: string }) => type),
          ['CANCELLED'],
        );
      }
    }));

  test('are limited in bytes: the items of a bulk request beyond the limit get 503', () =>
    withService({ SERVICE_JOURNAL_WAITING_BYTES: '5000' }, async ({ send }) => {
      const body = {
        runs: Array.from({ length: 10 }, () => ({ image: 'i', inputs: { text: 'x'.repeat(1000) } })),
      };
      const { body: answer } = await send('POST', '/runs/batch', { key: KEYS.client, body });
      const refused = { status: 503, error: { detail: OVERLOADED } };
      assert.deepEqual(
        answer.results.slice(4),
        Array.from({ length: 6 }, () => refused),
      );
      assert.ok(answer.results.slice(0, 4).every(({ status }: { status: number }) => status === 201));
    }));
});
