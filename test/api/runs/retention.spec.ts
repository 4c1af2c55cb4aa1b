import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { FeedRetention } from '../../../src/feed/feed-retention.js';
import { FileRemovalJob } from '../../../src/files/uploads/file-removal.job.js';
import { ObjectRemovalJob } from '../../../src/files/artifacts/removal/object-removal.job.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { RunRetention } from '../../../src/runs/run-retention.job.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps, passHours } from '../../support/files/file-steps.js';
import { GroupSteps } from '../../support/groups/group-steps.js';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const NOTHING = { runs: 0, feed_entries: 0, bytes: 0, objects: 0, object_bytes: 0, at_least: false };

describe('what retention would remove', () => {
  const service = useTestApp({
    env: {
      SERVICE_RUN_RETENTION_DAYS: '30',
      SERVICE_FEED_RETENTION_DAYS: '7',
      SERVICE_FILE_RETENTION_DAYS: '20',
    },
  });
  const runs = new RunSteps(service.send);
  const files = new FileSteps(service.send);
  const groups = new GroupSteps(service);
  const get = async (): Promise<any> => bodyOf(await service.send('GET', '/retention'), 'Retention');

  const later = async (days: number): Promise<void> => {
    const by = `interval '${days} days'`;
    await passHours(service.dataSource, days * 24);
    await service.dataSource.query(
      `update runs set created_at = created_at - ${by};
       update groups set created_at = created_at - ${by}, ended_at = ended_at - ${by};
       update events set t = t - ${by};
       update artifacts set at = at - ${by};
       update feed_topics set oldest_at = oldest_at - ${by};
       update feed_entries set recorded_at = recorded_at - ${by}`,
    );
  };
  const endedRun = async (body: Readonly<Record<string, unknown>> = {}): Promise<void> => {
    const { id } = await runs.create(body);
    await service.send('POST', `/runs/${id}/cancel`);
  };
  const leave = async (...sizes: readonly number[]): Promise<void> => {
    const left = sizes.map((size, n) => [`f${n}`, new Uint8Array(size)] as const);
    await runs.create({
      artifacts: { out: Object.fromEntries(left.map(([name]) => [name, { path: `/${name}` }])) },
    });
    await files.execute(Object.fromEntries(left));
  };
  const endedGroup = async (): Promise<void> => {
    const { id } = await groups.create({
      runs: [
        { ref: 'a', image: 'i' },
        { ref: 'b', image: 'i' },
      ],
    });
    await service.send('POST', `/groups/${id}/cancel`);
    await groups.untilGroup(id, ({ state }) => state === 'cancelled');
  };

  test('is what the next passes remove: runs, members of groups, entries of feeds, files, and nothing that others hold', async () => {
    assert.deepEqual(await get(), NOTHING);
    await leave(5, 6);
    await endedRun({ inputs: { text: 'x'.repeat(1_000) } });
    await endedRun({ event_delivery: { topic: 'old' } });
    await endedGroup();
    const member = { image: 'i', selector: ['none'] };
    const open = await groups.create({
      runs: [
        { ref: 'a', ...member },
        { ref: 'b', ...member },
      ],
    });
    await service.send('POST', `/runs/${(await groups.members(open.id)).get('a').id}/cancel`);
    await later(15);
    await leave(20);
    await files.stored('unused');
    await later(25);
    await leave(300);
    await files.stored('new');
    await endedRun({ event_delivery: { topic: 'new' } });
    await endedRun();
    await service.dataSource.query('analyze');

    const due = await get();
    const [{ entries }] = await service.dataSource.query(
      `select count(*)::integer as entries from feed_entries where topic = 'old'`,
    );
    assert.ok(entries > 0);
    assert.ok(Number.isSafeInteger(due.bytes) && due.bytes > 1_000, `${due.bytes}`);
    // Of 300 bytes nothing is due, nor the run whose events are on a feed, nor a member of the group that is open.
    assert.deepEqual(due, {
      ...NOTHING,
      runs: 4,
      feed_entries: entries,
      bytes: due.bytes,
      objects: 4,
      object_bytes: 37,
    });

    const env = { SERVICE_RUN_RETENTION_DAYS: '30', SERVICE_FILES_URL: 'none' };
    const off = await startTestApp({ env, database: service.database });
    const { body: withoutStore } = await off.send('GET', '/retention');
    await off.close();
    assert.deepEqual([withoutStore.runs, withoutStore.objects, withoutStore.object_bytes], [due.runs, 0, 0]);

    const { app } = service;
    const now = new Date();
    const stored = async (): Promise<number> =>
      (
        await Promise.all(
          ['runs/', 'files/'].map((prefix) =>
            app.get(Stores, { strict: false }).required().list(prefix, { limit: 100 }),
          ),
        )
      ).flat().length;
    const before = await stored();
    const pass = async (): Promise<number> => {
      const removed = await app.get(RunRetention, { strict: false }).runOnce(now);
      await app.get(ObjectRemovalJob, { strict: false }).runOnce(now);
      await app.get(FileRemovalJob, { strict: false }).runOnce(now);
      return removed;
    };
    assert.equal((await pass()) + (await pass()), due.runs);
    assert.equal(before - (await stored()), due.objects);
    assert.deepEqual(await app.get(FeedRetention, { strict: false }).runOnce(now), { entries });
    const { runs: freed, ...nothing } = await get();
    assert.deepEqual([freed, nothing.feed_entries, nothing.objects], [1, 0, 0]);
    assert.equal(await pass(), 1);
    assert.deepEqual(await get(), NOTHING);
  });
});
