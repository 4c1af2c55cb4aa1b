import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';

/** Waiting for the member of the same index. */
const sameIndex = (group: string): object => ({ group, type: 'same_index' });

describe('an end that is set right, or a member that is tried again', () => {
  const service = useTestApp();
  const steps = new GroupSteps(service);
  const { runs } = steps;

  /** An admin says how the run ended. */
  const patch = (id: string, state: string): Promise<unknown> =>
    service.send('PATCH', `/runs/${id}`, { body: { state } });
  const untilState = (id: string, state: string): Promise<unknown> =>
    steps.untilRun(id, (run) => run.state === state);
  const array = (size: number, ...on: object[]): Promise<{ id: string }> =>
    steps.create({ array: { size, run: { image: 'i' } }, depends_on: on });

  test.each([
    ['before the end', true],
    ['after the end', false],
  ] as const)(
    'opens the children again that it had cancelled, made %s, and their children when they complete',
    async (_when, isBefore) => {
      const parent = await runs.create();
      if (!isBefore) await steps.end(parent.id, 'FAILED');
      const child = await runs.create({ depends_on: [{ run: parent.id }] });
      const grandchild = await runs.create({ depends_on: [{ run: child.id }] });
      if (isBefore) await steps.end(parent.id, 'FAILED');
      for (const { id } of [child, grandchild]) await untilState(id, 'CANCELLED');
      await patch(parent.id, 'COMPLETED');
      await untilState(child.id, 'PENDING');
      assert.equal((await runs.get(grandchild.id)).state, 'CANCELLED');
      await steps.end(child.id);
      await untilState(grandchild.id, 'PENDING');
    },
  );

  test('of a group opens a run again that was made after the group had FAILED', async () => {
    const group = await steps.create({ runs: [{ ref: 'a', image: 'i' }] });
    const { id } = (await steps.members(group.id)).get('a');
    await steps.end(id, 'FAILED');
    const child = await runs.create({ depends_on: [{ group: group.id }] });
    assert.equal(child.state, 'CANCELLED');
    await steps.retry(group.id);
    await steps.end(id);
    await untilState(child.id, 'PENDING');
  });

  test('of the last member that had FAILED completes its group, and opens runs again that wait for that', async () => {
    const group = await steps.create({ runs: [{ ref: 'a', image: 'i' }] });
    const { id } = (await steps.members(group.id)).get('a');
    const child = await runs.create({ depends_on: [{ group: group.id }] });
    await steps.end(id, 'FAILED');
    await untilState(child.id, 'CANCELLED');
    await patch(id, 'COMPLETED');
    assert.equal((await steps.get(group.id)).state, 'completed');
    await untilState(child.id, 'PENDING');
  });

  test('leaves a run waiting for its other parents, however many of them end at the same time', async () => {
    for (let round = 0; round < 5; round += 1) {
      const [p, q, r] = await Promise.all([runs.create(), runs.create(), runs.create()]);
      const dependsOn = [p, q, r].map(({ id }) => ({ run: id }));
      const child = await runs.create({ depends_on: dependsOn });
      const group = await array(1, ...dependsOn);
      await steps.end(p.id, 'FAILED');
      await untilState(child.id, 'CANCELLED');
      await Promise.all([patch(p.id, 'COMPLETED'), patch(q.id, 'COMPLETED')]);
      await untilState(child.id, 'PENDING');
      const waiting = await steps.untilGroup(group.id, (one) => one.waiting_for.length === 1);
      assert.deepEqual([waiting.state, waiting.counts.uncreated], ['open', 1]);
      assert.equal(await steps.reason(child.id), 'dependency');
      await steps.end(r.id);
      await steps.untilReady(child.id);
      await steps.untilGroup(group.id, ({ counts }) => counts.uncreated === 0);
    }
  });

  test('is read at once: a cancelled run that is tried again gets its inputs from what has ended', async () => {
    const parent = await runs.create();
    const other = await runs.create({ outputs: { y: 'template' } });
    const child = await runs.create({
      depends_on: [{ run: parent.id }, { run: other.id }],
      inputs: {
        x: { $from: { run: parent.id, output: '/x', default: 1 } },
        y: { $from: { run: other.id, output: '/y', default: 2 } },
      },
    });
    await steps.end(parent.id, 'FAILED');
    await untilState(child.id, 'CANCELLED');
    await service.send('POST', `/runs/${child.id}/retry`);
    await steps.untilReady(child.id);
    assert.deepEqual((await runs.get(child.id)).inputs, { x: 1, y: 2 });
  });

  test('does not end the wait of a run that is tried again while it waits', async () => {
    const parent = await runs.create();
    const child = await runs.create({ depends_on: [{ run: parent.id }] });
    await service.send('POST', `/runs/${child.id}/retry`);
    assert.equal(await steps.reason(child.id), 'dependency');
    await steps.end(parent.id);
    const ready = await steps.untilReady(child.id);
    assert.equal(ready.current_attempt, 2);
  });

  test('ends an array whose members wait for those of one that ends without them', async () => {
    const blocker = await runs.create();
    const first = await array(2, { run: blocker.id });
    const second = await array(2, sameIndex(first.id));
    const last = await runs.create({ depends_on: [{ group: second.id }] });
    await steps.end(blocker.id, 'FAILED');
    const ended = await steps.untilGroup(second.id, ({ state }) => state !== 'open');
    assert.deepEqual([ended.state, ended.counts.uncreated], ['cancelled', 2]);
    await untilState(last.id, 'CANCELLED');
  });

  test('lets an array that was cancelled go on waiting, and makes no member of one that can have none', async () => {
    const blocker = await runs.create();
    const { id } = await array(2, { run: blocker.id });
    await service.send('POST', `/groups/${id}/cancel`);
    const again = await steps.retry(id);
    assert.deepEqual([again.state, again.counts.uncreated, again.waiting_for.length], ['open', 2, 1]);
    await steps.end(blocker.id, 'FAILED');
    await steps.untilGroup(id, ({ state }) => state === 'cancelled');
    const { status } = await service.send('POST', `/groups/${id}/retry`);
    assert.equal(status, 409);
    assert.equal((await steps.get(id)).counts.uncreated, 2);
  });

  test('of one array leaves members of another one cancelled until those of the same index have completed', async () => {
    const first = await array(1);
    const second = await array(1, sameIndex(first.id));
    await steps.untilGroup(second.id, ({ counts }) => counts.uncreated === 0);
    const { id: parent } = (await steps.members(first.id)).get(0);
    const { id: child } = (await steps.members(second.id)).get(0);
    await steps.end(parent, 'FAILED');
    await untilState(child, 'CANCELLED');
    assert.equal((await service.send('POST', `/groups/${second.id}/retry`)).status, 409);
    await steps.retry(first.id);
    await steps.end(parent);
    await untilState(child, 'PENDING');
  });

  test('tells those that wait for an array without members, and requests that wait, that it was cancelled', async () => {
    const blocker = await runs.create();
    const { id } = await array(2, { run: blocker.id });
    const child = await runs.create({ depends_on: [{ group: id }] });
    const waiting = service.send('GET', `/groups/${id}?wait=60`);
    await service.send('POST', `/groups/${id}/cancel`);
    assert.equal((await waiting).body.state, 'cancelled');
    await untilState(child.id, 'CANCELLED');
  });
});
