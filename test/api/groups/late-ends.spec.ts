import assert from 'node:assert/strict';
import { SchedulerRegistry } from '@nestjs/schedule';
import { beforeAll, describe, test } from 'vitest';
import { DependenciesJob } from '../../../src/groups/ends/dependencies.job.js';
import { DEPENDENCIES } from '../../../src/groups/members/groups.job.js';
import { RunRetention } from '../../../src/runs/run-retention.job.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';

/** Whether all members of an array are made. */
const isMade = ({ counts }: { counts: { uncreated: number } }): boolean => counts.uncreated === 0;

/** Those that wait are told only when a test asks for it, as after the death of the process that was to tell them. */
describe('ends that those that wait learn of later', () => {
  const service = useTestApp({ env: { SERVICE_RUN_RETENTION_DAYS: '1' } });
  const steps = new GroupSteps(service);
  const { runs } = steps;

  beforeAll(() => service.app.get(SchedulerRegistry).deleteTimeout(DEPENDENCIES));

  const tell = (): Promise<number> => service.app.get(DependenciesJob, { strict: false }).runOnce();
  const patch = async (id: string, ...states: string[]): Promise<void> => {
    for (const state of states) await service.send('PATCH', `/runs/${id}`, { body: { state } });
  };
  const stateOf = async (id: string): Promise<string> => (await runs.get(id)).state;
  const retry = (id: string, query = ''): Promise<unknown> =>
    service.send('POST', `/runs/${id}/retry${query}`);
  const array = (...on: object[]): Promise<{ id: string }> =>
    steps.create({ array: { size: 1, run: { image: 'i' } }, depends_on: on });
  const ofOne = async (): Promise<{ group: string; run: string }> => {
    const { id: group } = await steps.create({ runs: [{ ref: 'only', image: 'i' }] });
    return { group, run: (await steps.members(group)).get('only').id };
  };

  test.each([
    ['a PATCH', (id: string) => patch(id, 'COMPLETED', 'PENDING', 'COMPLETED')],
    [
      'a retry',
      async (id: string) => {
        await steps.end(id);
        await retry(id);
        await steps.end(id);
      },
    ],
  ])(
    'count once for a run that ended again after %s: its child waits for the other parent',
    async (_by, end) => {
      const [p, q] = [await runs.create(), await runs.create()];
      const on = [{ run: p.id }, { run: q.id }];
      const child = await runs.create({ depends_on: on });
      const { id: group } = await array(...on);
      await end(p.id);
      await tell();
      assert.equal(await steps.reason(child.id), 'dependency');
      assert.deepEqual(
        (await steps.get(group)).waiting_for.map(({ run }: { run: string }) => run),
        [q.id],
      );
      await steps.end(q.id);
      await tell();
      await steps.untilReady(child.id);
      await steps.untilGroup(group, isMade);
    },
  );

  test('leave a run and an array ready whose parent FAILED and was set to COMPLETED before they learned of it', async () => {
    const { id } = await runs.create();
    const child = await runs.create({ depends_on: [{ run: id }] });
    const { id: group } = await array({ run: id });
    await patch(id, 'FAILED', 'COMPLETED');
    await tell();
    assert.deepEqual(
      [(await steps.untilReady(child.id)).events, await steps.reason(child.id)],
      [[], 'no_worker'],
    );
    await steps.untilGroup(group, isMade);
  });

  test.each([
    ['a PATCH', (id: string) => patch(id, 'PENDING')],
    ['a retry', (id: string) => retry(id)],
  ])('do not concern runs that were made after %s had opened the parent again', async (_by, open) => {
    const { group, run } = await ofOne();
    const on = [{ run }, { group }];
    const create = async (): Promise<string[]> => {
      const children = await Promise.all(on.map((one) => runs.create({ depends_on: [one] })));
      return children.map(({ id }) => id);
    };
    const earlier = await create();
    await patch(run, 'FAILED');
    await open(run);
    const later = await create();
    await tell();
    for (const id of earlier) assert.equal(await stateOf(id), 'CANCELLED');
    for (const id of later) assert.equal(await steps.reason(id), 'dependency');
    await patch(run, 'COMPLETED');
    await tell();
    for (const id of later) await steps.untilReady(id);
  });

  test('open children of a run again by its last retry alone, if that asks for it', async () => {
    const { id } = await runs.create();
    const child = await runs.create({ depends_on: [{ run: id }] });
    await steps.end(id, 'FAILED');
    await tell();
    await retry(id, '?dependents=true');
    await steps.end(id, 'FAILED');
    await retry(id);
    await steps.end(id);
    await tell();
    assert.equal(await stateOf(child.id), 'CANCELLED');
    await retry(id, '?dependents=true');
    await steps.end(id);
    await tell();
    assert.equal(await stateOf(child.id), 'PENDING');
  });

  test('are kept until then when their runs and groups are removed: a run that needs outputs of one is CANCELLED', async () => {
    const { group, run } = await ofOne();
    const [inputs, ofGroup] = [{ run }, { group }].map((one) => ({ x: { $from: { ...one, output: '/x' } } }));
    const ready = [
      await runs.create({ depends_on: [{ run }] }),
      await runs.create({ depends_on: [{ group }] }),
    ];
    const lacking = [
      await runs.create({ depends_on: [{ run }], inputs }),
      await runs.create({ depends_on: [{ group }], inputs: ofGroup }),
    ];
    const broken = await runs.create({ depends_on: [{ run, when: 'failed' }] });
    await steps.end(run, 'COMPLETED', { x: 1 });
    const later = new Date(Date.now() + 2 * 86_400_000);
    await service.app.get(RunRetention, { strict: false }).runOnce(later);
    for (const path of [`/runs/${run}`, `/groups/${group}`])
      assert.equal((await service.send('GET', path)).status, 404);
    assert.equal(await steps.reason(ready[0].id), 'dependency');
    await tell();
    for (const { id } of ready) await steps.untilReady(id);
    for (const { id } of [...lacking, broken]) assert.equal(await stateOf(id), 'CANCELLED');
    const { cause, cancel_reason: why } = (await runs.get(lacking[0].id)).execution_summary;
    assert.deepEqual([cause, why], ['inputs', `inputs.x: run ${run} was removed`]);
    assert.deepEqual(await steps.refused('/runs', { image: 'i', depends_on: [{ run }] }), [
      `depends_on: there is no run '${run}'`,
    ]);
  });
});
