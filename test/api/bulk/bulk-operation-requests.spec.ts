import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const UNKNOWN = '0198c0de-0000-7000-8000-000000000000';

describe('requests for bulk operations', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const ask = (body: object, key: string = KEYS.client): Promise<TestAnswer> =>
    service.send('POST', '/bulk-operations', { body, key });

  test('are refused with the field that is wrong', async () => {
    const filter = { image: 'i' };
    const rules: readonly [body: object, problems: readonly string[]][] = [
      [{ action: 'pause', filter }, ['action must be one of cancel, retry, priority, labels']],
      [{ action: 'cancel' }, ['filter is required']],
      [{ action: 'cancel', filter: [] }, ['filter must be an object']],
      [
        { action: 'cancel', filter: { ...filter, limit: 5, starting_after: UNKNOWN } },
        ['filter.limit is not a known field', 'filter.starting_after is not a known field'],
      ],
      [
        { action: 'cancel', filter: { ending_before: UNKNOWN } },
        ['filter.ending_before is not a known field'],
      ],
      [{ action: 'cancel', filter: { image: '' } }, ['filter.image must not be empty']],
      [
        { action: 'cancel', filter: { 'created[gte]': '5', exit_code: '7' } },
        ['filter.exit_code must be an integer'],
      ],
      [
        { action: 'cancel', filter: { exit_code: 256 } },
        ['filter.exit_code must be an integer from 0 to 255'],
      ],
      [{ action: 'cancel', filter: {} }, ['filter has no condition: all must be true to change all runs']],
      [
        { action: 'cancel', filter: { label: [] } },
        ['filter has no condition: all must be true to change all runs'],
      ],
      [{ action: 'cancel', filter, value: 1 }, ['value must be absent: cancel has none']],
      [{ action: 'labels', filter }, ['value is required for labels']],
      [{ action: 'labels', filter, value: {} }, ['value must have a label']],
      [
        { action: 'labels', filter, value: { a: 1 } },
        ['value.a must be a string without control characters of at most 256 characters'],
      ],
      [
        { action: 'priority', filter, value: 'x' },
        ['value must be an integer from -2147483648 to 2147483647'],
      ],
      [
        { action: 'cancel', filter, reason: '' },
        ['reason must be a string without control characters of 1 to 500 characters'],
      ],
      [{ action: 'cancel', filter, expect: -1 }, ['expect must be an integer of at least 0']],
      [{ action: 'cancel', filter, dry_run: 'yes' }, ['dry_run must be true or false']],
      [{ action: 'cancel', filter, why: 'x' }, ['why is not a known field']],
    ];
    for (const [body, problems] of rules) assertInvalid(await ask(body, KEYS.admin), problems);
    const label = await ask({ action: 'cancel', filter: { label: 'team' } });
    assert.match(label.body.errors[0], /^filter\.label must be a list/);
    assertError(
      await ask({ action: 'cancel', filter: { state: 'SLEEPING' } }),
      400,
      "Invalid state 'SLEEPING'",
      ['a state is one of PENDING, ASSIGNED, RUNNING, CANCELLED, COMPLETED, FAILED'],
    );
    assertError(
      await ask({ action: 'priority', filter, value: 1 }, KEYS.client),
      403,
      "API key lacks scope 'admin'",
    );
    for (const [method, path] of [
      ['GET', `/bulk-operations/${UNKNOWN}`],
      ['POST', `/bulk-operations/${UNKNOWN}/stop`],
    ] as const) {
      assertError(await service.send(method, path), 404, `Bulk operation '${UNKNOWN}' not found`);
    }
    assertError(await service.send('GET', '/bulk-operations/x'), 404, "Bulk operation 'x' not found");
  });

  test('read the filter as GET /runs reads its query', async () => {
    const labels = { team: 'query', stage: 'train' };
    const { id, createdAt } = await steps.create({ labels, name: 'query-1', selector: ['gpu', 'eu'] });
    const at = Math.floor(Date.parse(createdAt) / 1000);
    const filters = [
      { label: ['team=query', 'stage'], 'created[gte]': at, 'created[lt]': at + 1, state: null },
      { name_prefix: 'query-', status: 'pending' },
      { name_prefix: 'query-', 'created[gte]': createdAt, 'created[lte]': createdAt.replace('Z', '+00:00') },
      { name_prefix: 'query-', 'created[gte]': String(at), 'created[lt]': '9999-12-31' },
      { selector: 'eu,gpu', label: ['team=query', 'team=other'] },
    ];
    for (const filter of filters) {
      const { runs } = bodyOf(await ask({ action: 'cancel', filter, dry_run: true }), 'BulkPreview');
      assert.deepEqual(
        runs.map((run: { id: string }) => run.id),
        [id],
      );
    }
    const all = bodyOf(await ask({ action: 'cancel', filter: {}, all: true, dry_run: true }), 'BulkPreview');
    assert.equal(all.matched, Number((await service.dataSource.query('select count(*) from runs'))[0].count));
  });
});
