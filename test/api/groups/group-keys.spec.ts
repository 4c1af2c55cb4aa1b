import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';

const PAIR = {
  runs: [
    { ref: 'a', image: 'i' },
    { ref: 'b', image: 'i' },
  ],
};

describe('a request with an idempotency key to a group', () => {
  const service = useTestApp();
  const groups = new GroupSteps(service);

  const post = async (path: string, key: string, body?: object) => {
    const {
      status,
      headers,
      body: group,
      text,
    } = await service.send('POST', `/groups/${path}`, {
      headers: { 'Idempotency-Key': key },
      ...(body && { body }),
    });
    return { status, text, group, isReplayed: headers.get('idempotency-replayed') === 'true' };
  };
  const failedPair = async () => {
    const { id } = await groups.create(PAIR);
    const members = await groups.members(id);
    for (const { id: run } of members.values()) await groups.end(run, 'FAILED');
    return { id, runs: [...members.values()].map(({ id: run }) => run) };
  };
  const attempts = (runs: readonly string[]): Promise<number[]> =>
    Promise.all(runs.map(async (run) => (await groups.runs.get(run)).current_attempt));

  test('cancels it once, and is refused with another reason', async () => {
    const { id } = await groups.create(PAIR);
    const [first, second] = [
      await post(`${id}/cancel`, 'c', { reason: 'x' }),
      await post(`${id}/cancel`, 'c', { reason: 'x' }),
    ];
    assert.deepEqual(
      [first.status, first.isReplayed, second.status, second.isReplayed],
      [200, false, 200, true],
    );
    assert.equal(second.group.reason, 'x');
    assert.equal((await post(`${id}/cancel`, 'c', { reason: 'y' })).status, 409);
    const { body: entries } = await service.send('GET', '/audit?limit=100');
    const own = entries.filter(
      ({ action, subject }: { action: string; subject: string }) =>
        action === 'group.cancel' && subject === id,
    );
    assert.equal(own.length, 1);
  });

  test('that was refused does not use up the key', async () => {
    const { id } = await groups.create(PAIR);
    assert.equal((await post(`${id}/retry`, 'r')).status, 409);
    for (const { id: run } of (await groups.members(id)).values()) await groups.end(run, 'FAILED');
    assert.deepEqual(await post(`${id}/retry`, 'r').then(({ status, isReplayed }) => [status, isReplayed]), [
      200,
      false,
    ]);
    assert.equal((await post(`${id}/cancel`, 'k')).status, 200);
    assert.equal((await post(`${id}/cancel`, 'other')).status, 409);
    assert.equal((await groups.retry(id, { only: 'all' })).state, 'open');
    assert.deepEqual(
      await post(`${id}/cancel`, 'other').then(({ status, isReplayed }) => [status, isReplayed]),
      [200, false],
    );
  });

  test('tries each member again once, also if it has failed anew when the request is repeated', async () => {
    const { id, runs } = await failedPair();
    assert.equal((await post(`${id}/retry`, 'again')).isReplayed, false);
    assert.deepEqual(await attempts(runs), [2, 2]);
    await groups.end(runs[0] ?? '', 'FAILED');
    const repeated = await post(`${id}/retry`, 'again');
    assert.deepEqual([repeated.status, repeated.isReplayed], [200, true]);
    assert.deepEqual(await attempts(runs), [2, 2]);
    assert.equal((await post(`${id}/retry`, 'again', { only: 'all' })).status, 409);
    await post(`${id}/retry`, 'anew');
    assert.deepEqual(
      (await attempts(runs)).toSorted((a, b) => a - b),
      [2, 3],
    );
  });

  test('goes on with what an earlier one has left when its process died, and with no more', async () => {
    const { id, runs } = await failedPair();
    await post(`${id}/retry`, 'cut');
    const [left = '', other = ''] = runs;
    // As if the first request had come to one of the two alone.
    for (const run of runs) await groups.end(run, 'FAILED');
    await execute(
      service.dataSource,
      `update runs set finished_at = (select min(created_at) from runs where id = $1::uuid) where id = $1::uuid`,
      [left],
    );
    assert.equal((await post(`${id}/retry`, 'cut')).isReplayed, true);
    assert.deepEqual(await attempts([left, other]), [3, 2]);
  });

  test('sent twice at once opens each member once', async () => {
    const { id, runs } = await failedPair();
    const answers = await Promise.all([post(`${id}/retry`, 'twice'), post(`${id}/retry`, 'twice')]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
    assert.deepEqual(await attempts(runs), [2, 2]);
  });
});
