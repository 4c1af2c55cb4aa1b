import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { JournalDataSource } from '../../../src/database/failover/reserved-connection.js';
import { rows } from '../../../src/database/sql/sql.js';
import { startTestApp } from '../../support/app/test-app.js';

describe('a process that is suspended during a commit', () => {
  it('blocks a run for a few seconds only, and no request of other processes fails', async () => {
    const service = await startTestApp();
    const stuck = new JournalDataSource(service.dataSource);
    await stuck.onModuleInit();
    const runner = stuck.dataSource.createQueryRunner();
    try {
      const { body: run } = await service.send('POST', '/runs', { body: { image: 'held' } });
      await runner.startTransaction();
      await rows(runner, 'select id from runs where id = $1::uuid for update', [run.id]);
      const body = { type: 'NOTE', msg: 'waits', payload: {} };
      const answer = await service.send('POST', `/runs/${run.id}/events`, { body });
      assert.equal(answer.status, 200, answer.text);
      await assert.rejects(rows(runner, 'select 1'));
    } finally {
      await runner.release().catch(() => undefined);
      await stuck.onApplicationShutdown();
      await service.close();
    }
  });
});
