import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { senderTo } from '../../support/app/test-app.js';
import { until } from '../../support/app/passing-time.js';
import { BulkSteps } from '../../support/runs/bulk-steps.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const CHILDREN = 2_000;
const BATCH = 100;
const ADMIN_KEY = 'dependencies-admin-key-of-the-tests';

describe('a service that is killed when a run has ended, before it has told those that wait for it', () => {
  test.for([
    ['the end of the run is acknowledged', 0],
    ['the first ones are told', 1],
  ] as const)(
    `tells all ${CHILDREN} after its restart, killed as soon as %s: workers get each, once`,
    async ([, least], t) => {
      const database = await openTestDatabase();
      t.onTestFinished(() => database.close());
      let service = await start(database);
      const before = stepsOf(service);
      await before.runs.heartbeat();
      const parent = await before.runs.create();
      const children: string[] = [];
      while (children.length < CHILDREN)
        children.push(...(await before.bulk.ids(BATCH, { depends_on: [{ run: parent.id }] })));
      assert.deepEqual(
        (await before.runs.claim()).map(({ id }) => id),
        [parent.id],
      );
      await before.runs.report(parent.id, { type: 'COMPLETED', msg: '', payload: {} });
      await until(
        () => told(database),
        (count) => count >= least,
      );
      await service.kill();

      const atCrash = await told(database);
      const [{ ends } = { ends: 0 }] = await rows<{ ends: number }>(
        database.dataSource,
        'select count(*)::integer as ends from dependency_ends',
      );
      assert.ok(atCrash < CHILDREN && ends === 1, `${atCrash} were told when the service was killed`);

      const since = performance.now();
      const seconds = (): string => ((performance.now() - since) / 1000).toFixed(1);
      service = await start(database);
      const listening = seconds();
      await until(
        () => told(database),
        (count) => count === CHILDREN,
      );
      const all = seconds();
      const { runs, bulk } = stepsOf(service);
      await runs.heartbeat();
      const got: string[] = [];
      while (got.length < CHILDREN) {
        const ops = await bulk.claim('w', BATCH);
        assert.ok(ops.length > 0, `a worker gets ${got.length} runs`);
        got.push(...ops.map(({ id }) => id));
      }
      assert.deepEqual(got.toSorted(), children.toSorted());
      const text = `${atCrash} of ${CHILDREN} were told at the crash; listening after ${listening} s, all told after ${all} s, all claimed after ${seconds()} s`;
      await t.annotate(text);
      assert.equal(await service.stop(), 0, service.output);
    },
  );
});

function start({ url }: TestDatabase): Promise<ServiceProcess> {
  return startService({ env: { DATABASE_URL: url, SERVICE_API_KEYS: `admin:${ADMIN_KEY}` } });
}

function stepsOf({ url }: ServiceProcess): { readonly runs: RunSteps; readonly bulk: BulkSteps } {
  const send = senderTo(url, ADMIN_KEY);
  return { runs: new RunSteps(send), bulk: new BulkSteps(send) };
}

/** How many runs know of the end that they wait for. */
async function told({ dataSource }: TestDatabase): Promise<number> {
  const [row] = await rows<{ count: number }>(
    dataSource,
    'select count(*)::integer as count from dependencies where outcome is not null',
  );
  return row?.count ?? assert.fail();
}
