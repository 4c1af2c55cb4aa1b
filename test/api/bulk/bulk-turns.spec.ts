import assert from 'node:assert/strict';
import { SchedulerRegistry } from '@nestjs/schedule';
import { beforeAll, beforeEach, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { BULK_OPERATIONS, BulkOperationsJob } from '../../../src/runs/bulk/bulk-operations.job.js';
import { BulkOperationRepository } from '../../../src/runs/bulk/bulk-operations.repository.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { KEYS, settingsName, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const OTHER = 'other-client-key-of-the-tests';
const MOST = 3;
const MOST_RUNS = 500;

/** The job runs only when a test asks for it. */
describe('what an API key may have under way in bulk operations', () => {
  const service = useTestApp({
    env: {
      SERVICE_API_KEYS: [
        ...Object.entries(KEYS).map(([scope, key]) => `${scope}:${key}`),
        `client:${OTHER}`,
      ].join(','),
      SERVICE_MAX_BULK_OPERATIONS_PER_KEY: String(MOST),
      SERVICE_MAX_BULK_RUNS_PER_KEY: String(MOST_RUNS),
    },
  });
  let job: BulkOperationsJob;
  let operations: BulkOperationRepository;

  beforeAll(async () => {
    job = service.app.get(BulkOperationsJob, { strict: false });
    operations = service.app.get(BulkOperationRepository, { strict: false });
    service.app.get(SchedulerRegistry).deleteTimeout(BULK_OPERATIONS);
    for (const [image, count] of [
      ['one', 1],
      ['page', 101],
      ['many', 251],
      ['all', 600],
    ] as const) {
      for (let left = count; left > 0; left -= 100) {
        const runs = Array.from({ length: Math.min(left, 100) }, () => ({ image }));
        assert.equal((await service.send('POST', '/runs/batch', { body: { runs } })).status, 200);
      }
    }
  });
  beforeEach(() => execute(service.dataSource, 'delete from bulk_operations'));

  const ask = (image: string, key: string, more: object = {}, headers = {}): Promise<TestAnswer> =>
    service.send('POST', '/bulk-operations', {
      body: { action: 'labels', filter: { image }, value: { a: '1' }, ...more },
      key,
      headers,
    });
  const start = async (image: string, key: string): Promise<string> =>
    bodyOf(await ask(image, key), 'StartedBulkOperation', 202).id;
  const refused = (key: string): string =>
    `Too many bulk operations of the API key '${settingsName('client', key)}' are running: at most ${MOST} (SERVICE_MAX_BULK_OPERATIONS_PER_KEY)`;
  const tooManyRuns = (key: string): string =>
    `Too many runs in the running bulk operations of the API key '${settingsName('client', key)}': at most ${MOST_RUNS} (SERVICE_MAX_BULK_RUNS_PER_KEY)`;
  /** Takes pages as the job does, without changing runs. @returns whose they are, with names in the place of ids */
  const turns = async (count: number, names: Readonly<Record<string, string>>): Promise<string[]> => {
    const taken: string[] = [];
    for (let n = 0; n < count; n += 1) {
      const page = await operations.takePage();
      taken.push(names[page?.id ?? ''] ?? 'none');
      await execute(service.dataSource, 'update bulk_operations set due_at = now() where id = $1::uuid', [
        page?.id,
      ]);
    }
    return taken;
  };

  test('is a number of operations: a further one is refused with 429, other keys are not, and it may go on when one has ended', async () => {
    const flood = await Promise.all(Array.from({ length: 12 }, () => ask('one', KEYS.client)));
    const accepted = flood.filter(({ status }) => status === 202);
    assert.equal(accepted.length, MOST);
    for (const answer of flood.filter(({ status }) => status !== 202)) {
      assertError(answer, 429, refused(KEYS.client));
      assert.equal(answer.headers.get('retry-after'), '5');
    }
    assert.equal((await ask('one', KEYS.client, { dry_run: true })).status, 200);
    assert.equal((await ask('no-such-image', OTHER)).status, 202);
    await start('one', OTHER);
    await start('one', KEYS.admin);
    await service.send('POST', `/bulk-operations/${accepted[0]?.body.id}/stop`);
    await start('one', KEYS.client);
    assertError(await ask('one', KEYS.client), 429, refused(KEYS.client));
    await job.runOnce();
    await start('one', KEYS.client);
    const { text } = await service.send('GET', '/metrics');
    assert.match(text, /longshore_refused_total\{limit="SERVICE_MAX_BULK_OPERATIONS_PER_KEY"\} [1-9]/);
  });

  test('answers a repeated request as before, although the key is at its limit', async () => {
    const headers = { 'Idempotency-Key': 'at-the-limit' };
    const { body: first } = await ask('one', KEYS.client, {}, headers);
    for (let n = 1; n < MOST; n += 1) await start('one', KEYS.client);
    assertError(await ask('one', KEYS.client), 429, refused(KEYS.client));
    const again = await ask('one', KEYS.client, {}, headers);
    assert.deepEqual([again.status, again.body], [202, first]);
  });

  test('is a number of runs, which one operation alone may exceed', async () => {
    await start('all', KEYS.client);
    assertError(await ask('one', KEYS.client), 429, tooManyRuns(KEYS.client));
    await start('many', OTHER);
    assertError(await ask('many', OTHER), 429, tooManyRuns(OTHER));
    await start('page', OTHER);
    await job.runOnce();
    await start('one', KEYS.client);
  });

  test('takes turns with other keys, page by page, however many operations a key has', async () => {
    const [first, second, third] = [
      await start('many', KEYS.client),
      await start('page', KEYS.client),
      await start('page', KEYS.client),
    ];
    const other = await start('many', OTHER);
    const names = { [first]: 'a1', [second]: 'a2', [third]: 'a3', [other]: 'b' };
    assert.deepEqual(await turns(7, names), ['a1', 'b', 'a2', 'b', 'a3', 'b', 'a1']);
  });

  test('gets no more turns by short operations that end at once', async () => {
    const long = await start('many', OTHER);
    const short = await start('one', KEYS.client);
    assert.deepEqual(await turns(2, { [long]: 'long', [short]: 'short' }), ['long', 'short']);
    await service.send('POST', `/bulk-operations/${short}/stop`);
    const next = await start('one', KEYS.client);
    assert.deepEqual(await turns(2, { [long]: 'long', [next]: 'next' }), ['long', 'next']);
  });

  test('goes behind the operations of admins', async () => {
    const client = await start('many', KEYS.client);
    const admin = await start('many', KEYS.admin);
    const names = { [client]: 'client', [admin]: 'admin' };
    assert.deepEqual(await turns(3, names), ['admin', 'admin', 'admin']);
    await service.send('POST', `/bulk-operations/${admin}/stop`);
    assert.deepEqual(await turns(1, names), ['client']);
  });
});
