import assert from 'node:assert/strict';
import { test } from 'vitest';
import { CommitNotices } from '../../../src/database/notices/commit-notices.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { until } from '../../support/service-process.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { startTestApp } from '../../support/app/test-app.js';

const statements = logStatements();

test('a claim locks the runs that it reads only while another process serves', async () => {
  const service = await startTestApp();
  const notices = service.app.get(CommitNotices, { strict: false });
  const steps = new RunSteps(service.send);
  await steps.heartbeat('w');
  const locksOfClaim = async (): Promise<number> => {
    const { id } = await steps.create();
    statements.length = 0;
    const ops = await steps.claim('w');
    assert.deepEqual(
      ops.map((op) => op.id),
      [id],
    );
    return statements.filter((sql) => /\bqueue\b/.test(sql) && sql.includes('for update skip locked')).length;
  };
  await until(() => notices.isAlone, 'it knows that it is alone');
  assert.equal(await locksOfClaim(), 0);
  const other = await startTestApp({ database: service.database });
  await until(() => !notices.isAlone, 'it knows of the other one');
  assert.ok((await locksOfClaim()) > 0);
  await other.close();
  await service.close();
});
