import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import type { NewRun } from '../../../src/runs/machine/run.js';
import { ConcurrencyKeys } from '../../../src/runs/queue/concurrency-keys.js';
import { LaneRepository } from '../../../src/runs/queue/lane.repository.js';
import { QueueCleanupJob } from '../../../src/runs/queue/queue-cleanup.job.js';
import { requirementIdOf } from '../../../src/runs/requirements.js';
import { sendNotice } from '../../../src/database/notices/commit-notice.js';
import { DirectStrategy } from '../../../src/claims/strategies/direct.strategy.js';
import { FitStrategy } from '../../../src/claims/strategies/fit.strategy.js';
import { ClaimProcess } from '../../support/workers/claim-process.js';
import { changeOn, createOn, eventCommand, queueWith } from '../../support/runs/journal.js';
import { until } from '../../support/service-process.js';
import { endListening } from '../../support/postgres/listening-sessions.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const GPU: Partial<NewRun> = {
  selector: ['gpu'],
  requirementId: requirementIdOf({ tags: ['gpu'], capabilities: [], gpuTags: [], gpus: null }),
};

for (const strategy of [new DirectStrategy(), new FitStrategy(300)]) {
  describe(`a claim that waits, by ${strategy.name}, for a run that not every worker may get`, () => {
    const database = useTestDatabase();
    let here: ClaimProcess;
    let there: ClaimProcess;
    const idle = Array.from({ length: 40 }, (_, i) => `idle-${i}`);

    beforeEach(async () => {
      await database.dataSource.query('delete from queue; delete from lanes; delete from runs');
      here = await ClaimProcess.start(database, { strategy });
      there = await ClaimProcess.start(database, { strategy });
      await here.know(...idle);
      await here.knowTagged('gpu-worker', 'gpu', 'linux');
      await there.know('elsewhere');
    });
    afterEach(async () => {
      await here.close();
      await there.close();
    });

    /** Workers without tags wait first, then the one with the tags. @returns what the last one gets */
    async function waitAll(workers = [...idle, 'gpu-worker']): Promise<{ readonly last: Promise<string[]> }> {
      const claims = workers.map((worker) => here.claim(worker));
      await until(() => Promise.resolve(here.waiting.size === workers.length), 'all wait');
      return { last: claims.at(-1) ?? Promise.resolve([]) };
    }

    test('gets it at once after its creation in another process, though others wait longer', async () => {
      const { last } = await waitAll();
      const { id } = await createOn(there.journal, GPU);
      assert.deepEqual(await last, [id]);
    });

    test('gets it at once when the run that filled its key ends in another process', async () => {
      const keyed = { ...GPU, concurrencyKey: `key-${strategy.name}`, concurrencyLimit: 1 };
      const first = await createOn(there.journal, keyed);
      assert.deepEqual(await here.claim('gpu-worker', { wait: 0 }), [first.id]);
      const second = await createOn(there.journal, keyed);
      const { last } = await waitAll();
      await changeOn(there.journal, first.id, eventCommand({ type: 'COMPLETED', msg: '', payload: {} }));
      assert.deepEqual(await last, [second.id]);
    });

    test('gets it although notices are lost when its lane is created', async () => {
      await here.close();
      here = await ClaimProcess.start(database, { strategy, reconnectMs: 60_000 });
      await here.knowTagged('gpu-worker', 'gpu', 'linux');
      assert.deepEqual(await here.claim('gpu-worker', { wait: 0 }), []);
      await until(async () => {
        await endListening(database.dataSource);
        return !here.notices.isListening;
      }, 'the loss is noticed');
      const { id } = await createOn(there.journal, GPU);
      assert.deepEqual(await here.claim('gpu-worker', { wait: 0 }), [id]);
    });

    test('gets it at once after its lane was removed and another process has created it again', async () => {
      const first = await createOn(there.journal, GPU);
      assert.deepEqual(await here.claim('gpu-worker', { wait: 0 }), [first.id]);
      assert.deepEqual(await here.claim('gpu-worker', { wait: 0 }), []);
      const [keys, lanes] = [new ConcurrencyKeys(), new LaneRepository()];
      await new QueueCleanupJob(database.dataSource, keys, lanes).runOnce();
      assert.deepEqual(await rows(database.dataSource, 'select id from lanes'), []);
      const { last } = await waitAll();
      const { id } = await createOn(there.journal, GPU);
      assert.deepEqual(await last, [id]);
    });

    test('gets it after a rollback has brought it back into the queue', async () => {
      const run = await createOn(here.journal, GPU);
      const claimant = { id: 'gpu-worker', cpuCores: 1, ramMb: 1, gpus: [], capabilities: [], held: [] };
      const gpu = { ...claimant, tags: ['gpu'] };
      const queue = queueWith(undefined, here.lanes);
      const failed = database.dataSource.transaction(async (manager) => {
        await queue.remove(manager, [run]);
        const mayForget = queue.mayForget(manager);
        const { runs } = await here.lanes.list(manager, [gpu], { limit: 1 }, { mayForget });
        assert.deepEqual(runs, []);
        throw new Error('rolled back');
      });
      await assert.rejects(failed, /rolled back/);
      assert.deepEqual(await here.claim('gpu-worker', { wait: 0 }), [run.id]);
    });

    test('gets it at once after a heartbeat to another process has announced new tags', async () => {
      const { id } = await createOn(there.journal, GPU);
      const { last } = await waitAll(['idle-0']);
      await here.knowTagged('idle-0', 'gpu');
      await sendNotice(there.dataSource, { changedWorkers: ['idle-0'] });
      assert.deepEqual(await last, [id]);
    });
  });
}
