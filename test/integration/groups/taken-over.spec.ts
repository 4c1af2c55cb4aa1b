import { SchedulerRegistry } from '@nestjs/schedule';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { DEPENDENCIES, GROUP_MEMBERS } from '../../../src/groups/members/groups.job.js';
import { until } from '../../support/app/passing-time.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';
import { GroupSteps } from '../../support/groups/group-steps.js';

describe('when a process dies right after a commit, another one that runs already', () => {
  const database = useTestDatabase();
  let dying: TestApp;
  let steps: GroupSteps;

  beforeAll(async () => {
    dying = await startTestApp({ database });
    // It does nothing by itself any more.
    for (const name of [GROUP_MEMBERS, DEPENDENCIES]) dying.app.get(SchedulerRegistry).deleteTimeout(name);
    steps = new GroupSteps(dying);
  });
  afterAll(() => dying.close());

  /** Starts another process, and waits until its jobs have found nothing to do. */
  const startOther = async (): Promise<TestApp> => {
    const other = await startTestApp({ database });
    for (const name of [GROUP_MEMBERS, DEPENDENCIES])
      await until(
        () => other.send('GET', '/metrics'),
        ({ text }) =>
          new RegExp(`^longshore_job_duration_seconds_count\\{name="${name}"\\} [1-9]`, 'm').test(text),
      );
    return other;
  };
  const ARRAY = { array: { size: 2, run: { image: 'i' } } };
  const untilMade = (id: string): Promise<unknown> =>
    steps.untilGroup(id, ({ counts }) => counts.uncreated === 0);

  test('makes the members of an array that was created', async () => {
    const other = await startOther();
    const { id } = await steps.create(ARRAY);
    await untilMade(id);
    await other.close();
  });

  test('makes the members of an array that was opened again', async () => {
    const { id } = await steps.create(ARRAY);
    await dying.send('POST', `/groups/${id}/cancel`);
    const other = await startOther();
    await steps.retry(id, { only: 'all' });
    await untilMade(id);
    await other.close();
  });

  test('reads the inputs of a run whose parents had ended when it was created', async () => {
    const parent = await steps.runs.create();
    await steps.end(parent.id, 'COMPLETED', { x: 1 });
    const other = await startOther();
    const child = await steps.runs.create({
      depends_on: [{ run: parent.id }],
      inputs: { x: { $from: { run: parent.id, output: '/x' } } },
    });
    await steps.untilReady(child.id);
    await other.close();
  });
});
