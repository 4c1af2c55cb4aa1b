import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { RunRetention } from '../../../src/runs/run-retention.job.js';
import { newId } from '../../../src/runs/machine/new-id.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const DAY_MS = 86_400_000;
/** An id of version 7 that the service has not made yet. */
const LATER = 'ffffffff-ffff-7fff-8fff-ffffffffffff';
const RANDOM = '6f1f6a3e-3c55-4d0e-9c5c-0f4b4d7b1a11';

describe('a cursor of the run list', () => {
  const service = useTestApp({ env: { SERVICE_RUN_RETENTION_DAYS: '1' } });
  /** From the newest to the oldest. The runs at odd positions are removed by the retention. */
  const ids: string[] = [];

  beforeAll(async () => {
    const steps = new RunSteps(service.send);
    for (let n = 0; n < 7; n += 1) ids.unshift((await steps.create({ image: n % 2 ? 'odd' : 'even' })).id);
    for (const id of ids.filter((_, n) => n % 2 === 1)) {
      assert.equal((await service.send('POST', `/runs/${id}/cancel`)).status, 200);
    }
    // A clock of the service's process that differs from that of the database changes nothing.
    await execute(service.dataSource, `update runs set created_at = created_at - interval '5 days'`);
    assert.equal(await service.app.get(RunRetention).runOnce(new Date(Date.now() + 2 * DAY_MS)), 3);
  });

  const list = async (query: string): Promise<{ readonly found: string[]; readonly more: boolean }> => {
    const { status, body, text } = await service.send('GET', `/runs?${query}`);
    assert.equal(status, 200, text);
    return { found: body.data.map(({ id }: { id: string }) => id), more: body.has_more };
  };
  const remaining = (from: number, to = ids.length): string[] =>
    ids.filter((_, n) => n % 2 === 0 && n >= from && n < to);

  for (const n of [1, 3, 5]) {
    test(`whose run was removed goes on where the run was (${n})`, async () => {
      assert.deepEqual(await list(`starting_after=${ids[n]}`), { found: remaining(n), more: false });
      assert.deepEqual(await list(`ending_before=${ids[n]}`), { found: remaining(0, n), more: false });
      assert.deepEqual(await list(`limit=1&starting_after=${ids[n]}`), {
        found: remaining(n).slice(0, 1),
        more: n < 5,
      });
    });
  }

  test('whose run is there works as before', async () => {
    assert.deepEqual((await list(`starting_after=${ids[2]}`)).found, remaining(3));
  });

  test('whose run was newer or older than all others starts at the end of the list', async () => {
    const newer = newId();
    assert.deepEqual((await list(`starting_after=${newer}`)).found, remaining(0));
    assert.deepEqual((await list(`ending_before=${newer}`)).found, []);
    const older = '018f0000-0000-7000-8000-000000000000';
    assert.deepEqual((await list(`starting_after=${older}`)).found, []);
    assert.deepEqual((await list(`ending_before=${older}`)).found, remaining(0));
  });

  for (const id of [RANDOM, LATER, 'nope']) {
    test(`that the service cannot have made is refused: ${id}`, async () => {
      for (const cursor of ['starting_after', 'ending_before']) {
        const answer = await service.send('GET', `/runs?${cursor}=${id}`);
        assertError(answer, 400, 'The cursor is not the id of a run');
      }
    });
  }
});
