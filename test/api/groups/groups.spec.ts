import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';

/** A run of a group. */
const run = (ref: string, ...on: string[]) => ({
  ref,
  image: 'i',
  depends_on: on.map((one) => ({ ref: one })),
});

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

describe('a run that waits for another', () => {
  const service = useTestApp();
  const steps = new GroupSteps(service);
  const { runs } = steps;

  test('gets values of its inputs from the outputs of its parents, with all their digits', async () => {
    const parent = await runs.create();
    const child = await runs.create({
      depends_on: [{ run: parent.id }],
      inputs: {
        cost: { $from: { run: parent.id, output: '/best/cost' } },
        other: 1,
        missing: { $from: { run: parent.id, output: '/none', default: [1.1] } },
      },
    });
    await service.send('PATCH', `/runs/${parent.id}`, { body: { state: 'RUNNING' } });
    await runs.report(
      parent.id,
      '{"type":"COMPLETED","msg":"","payload":{"outputs":{"best":{"cost":0.10000000000000000001}}}}',
    );
    await steps.untilReady(child.id);
    const { text } = await service.send('GET', `/runs/${child.id}`);
    assert.match(text, /"inputs":\{"cost":0\.10000000000000000001,"other":1,"missing":\[1\.10?\]\}/);
  });
});

describe('a group', () => {
  const service = useTestApp();
  const steps = new GroupSteps(service);

  test('runs its members in the order of their dependencies, counts them, and ends with the last', async () => {
    const group = await steps.create({
      name: 'train',
      inputs: { day: 'monday' },
      runs: [
        {
          ref: 'report',
          image: 'i',
          depends_on: [{ ref: 'train' }],
          inputs: { day: null, loss: { $from: { ref: 'train', output: '/loss' } } },
        },
        { ref: 'train', image: 'i', depends_on: [{ ref: 'prepare' }] },
        { ref: 'prepare', image: 'i' },
      ],
    });
    assert.deepEqual([group.state, group.size, group.counts.pending], ['open', 3, 3]);
    const members = await steps.members(group.id);
    const id = (ref: string): string => members.get(ref).id;
    assert.deepEqual(members.get('train').inputs, { day: 'monday' });
    await steps.end(id('prepare'));
    await steps.untilReady(id('train'));
    assert.equal(await steps.reason(id('report')), 'dependency');
    await steps.end(id('train'), 'COMPLETED', { loss: 3 });
    await steps.untilReady(id('report'));
    assert.deepEqual((await steps.runs.get(id('report'))).inputs, { day: null, loss: 3 });
    await steps.end(id('report'));
    const ended = await steps.get(group.id);
    assert.deepEqual([ended.state, ended.progress, ended.counts.completed], ['completed', 100, 3]);
    assert.notEqual(ended.ended_at, null);
  });

  test('is failed when a member FAILED, and tries that one again with what it had cancelled', async () => {
    const group = await steps.create({
      runs: [
        { ref: 'a', image: 'i' },
        { ref: 'b', image: 'i', depends_on: [{ ref: 'a' }] },
        { ref: 'c', image: 'i', depends_on: [{ ref: 'b' }] },
        { ref: 'd', image: 'i' },
      ],
    });
    const members = await steps.members(group.id);
    const id = (ref: string): string => members.get(ref).id;
    await steps.end(id('d'));
    await steps.end(id('a'), 'FAILED');
    const failed = await steps.untilGroup(group.id, ({ state }) => state !== 'open');
    assert.deepEqual([failed.state, failed.failed_refs, failed.counts.cancelled], ['failed', ['a'], 2]);
    const again = await steps.retry(group.id);
    assert.deepEqual([again.state, again.counts.pending, again.counts.completed], ['open', 3, 1]);
    assert.equal(await steps.reason(id('b')), 'dependency');
    await steps.end(id('a'));
    await steps.untilReady(id('b'));
    await steps.end(id('b'));
    await steps.untilReady(id('c'));
    await steps.end(id('c'));
    const ended = await steps.untilGroup(group.id, ({ state }) => state !== 'open');
    assert.deepEqual([ended.state, ended.counts.completed], ['completed', 4]);
  });

  test('of an array makes its members in order, and stops when too many have FAILED', async () => {
    const group = await steps.create({
      array: { size: 60, run: { image: 'i', args: ['${array.index}/${array.size}'] } },
      max_failed: 2,
    });
    await steps.untilGroup(group.id, ({ counts }) => counts.uncreated === 0);
    const members = await steps.members(group.id);
    assert.deepEqual([members.get(7).args, members.get(7).array], [['7/60'], { index: 7, size: 60 }]);
    for (const index of [3, 4]) await steps.end(members.get(index).id, 'FAILED');
    const ended = await steps.untilGroup(group.id, ({ state }) => state !== 'open');
    assert.deepEqual([ended.state, ended.failed_indexes, ended.counts.cancelled], ['failed', '3-4', 58]);
    assert.equal((await steps.runs.get(members.get(9).id)).execution_summary.cause, 'max_failed');
  });

  test('of an array is refused for any of its inputs that its members could not have, also for the last of 10,000', async () => {
    const { status } = await service.send('POST', '/definitions', {
      body: {
        id: 'rated',
        version: '1',
        image: 'i',
        input_specs: { rate: { type: 'number', required: true } },
      },
    });
    assert.equal(status, 201);
    const inputs: object[] = Array.from({ length: 10_000 }, (_, n) => ({ rate: n }));
    const bodyWith = (last: object) => ({
      array: { inputs: [...inputs.slice(0, -1), last], run: { definition: 'rated' } },
    });
    const lines = await steps.refused('/groups', bodyWith({}));
    assert.equal(lines.length, 1);
    assert.match(String(lines[0]), /^array\.inputs\[9999\]: .*rate/);
    const plain = { array: { inputs: [...inputs.slice(0, 150), { text: '${run.id' }], run: { image: 'i' } } };
    assert.match(String((await steps.refused('/groups', plain))[0]), /^array\.inputs\[150\]: /);
    const { id } = await steps.create(bodyWith({ rate: 1 }));
    await service.send('POST', `/groups/${id}/cancel`);
  });

  test('waits for another array by index, and a list of outputs comes from a whole array', async () => {
    const first = await steps.create({ array: { inputs: [{ x: 1 }, { x: 2 }], run: { image: 'i' } } });
    const second = await steps.create({
      array: { size: 2, run: { image: 'i', inputs: { y: { $from: { group: first.id, output: '/y' } } } } },
      depends_on: [{ group: first.id, type: 'same_index' }],
    });
    const last = await steps.runs.create({
      depends_on: [{ group: first.id }],
      inputs: { all: { $from: { group: first.id, output: '/y' } } },
    });
    await steps.untilGroup(second.id, ({ counts }) => counts.uncreated === 0);
    const [parents, children] = [await steps.members(first.id), await steps.members(second.id)];
    await steps.end(parents.get(1).id, 'COMPLETED', { y: 'b' });
    await steps.untilReady(children.get(1).id);
    assert.deepEqual((await steps.runs.get(children.get(1).id)).inputs, { y: 'b' });
    assert.equal(await steps.reason(children.get(0).id), 'dependency');
    await steps.end(parents.get(0).id, 'COMPLETED', { y: 'a' });
    await steps.untilReady(last.id);
    assert.deepEqual((await steps.runs.get(last.id)).inputs, { all: ['a', 'b'] });
  });

  test('is cancelled with its members, and has a graph', async () => {
    const group = await steps.create({
      runs: [
        { ref: 'a', image: 'i' },
        { ref: 'b', image: 'i', depends_on: [{ ref: 'a', when: 'ended' }] },
      ],
    });
    const { body: graph } = await service.send('GET', `/groups/${group.id}/graph`);
    assert.deepEqual(
      graph.edges.map(({ when, state }: any) => [when, state]),
      [['ended', 'open']],
    );
    const { body: cancelled } = await service.send('POST', `/groups/${group.id}/cancel`, {
      body: { reason: 'wrong' },
    });
    assert.deepEqual(
      [cancelled.state, cancelled.counts.cancelled, cancelled.reason],
      ['cancelled', 2, 'wrong'],
    );
  });

  test('that was stopped executes a member that is tried again, makes no others, and may be cancelled again', async () => {
    const array = { size: 102, run: { image: 'i' } };
    const { id } = await steps.create({ array, max_parallel: 1, max_failed: 1 });
    await steps.untilGroup(id, ({ counts }) => counts.pending >= 80);
    const members = await steps.members(id);
    const [first, second] = [members.get(0).id, members.get(1).id];
    await steps.end(first, 'FAILED');
    const stopped = await steps.untilGroup(id, ({ state }) => state !== 'open');
    const { uncreated } = stopped.counts;
    assert.deepEqual([stopped.state, uncreated > 0], ['failed', true]);
    for (const tried of [first, second])
      assert.equal((await service.send('POST', `/runs/${tried}/retry`)).status, 200);
    await steps.end(first);
    assert.equal((await steps.get(id)).state, 'open');
    assert.equal((await steps.runs.get(second)).state, 'PENDING');
    await service.send('POST', `/groups/${id}/cancel`, { body: { reason: 'enough' } });
    const ended = await steps.untilGroup(id, ({ state }) => state !== 'open');
    assert.deepEqual(
      [ended.state, ended.reason, ended.counts.completed, ended.counts.uncreated],
      ['cancelled', 'enough', 1, uncreated],
    );
    assert.equal((await steps.runs.get(second)).state, 'CANCELLED');
  });

  test('refuses cycles with their path, unknown names with the nearest, and inputs that nobody takes', async () => {
    assert.deepEqual(
      await steps.refused('/groups', { runs: [run('a', 'c'), run('b', 'a'), run('c', 'b')] }),
      ['runs wait for each other: a -> c -> b -> a'],
    );
    assert.deepEqual(await steps.refused('/groups', { runs: [run('prepare'), run('train', 'prepar')] }), [
      'runs[1].depends_on[0].ref: there is no run "prepar" in the group: did you mean \'prepare\'?',
    ]);
  });
});
