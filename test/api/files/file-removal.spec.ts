import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { beforeEach, describe, test, vi } from 'vitest';
import { FileRepository } from '../../../src/files/uploads/file.repository.js';
import { FileRemovalJob } from '../../../src/files/uploads/file-removal.job.js';
import { FileRemovalRepository } from '../../../src/files/uploads/file-removal.repository.js';
import { StoreUnavailable } from '../../../src/files/stores/stores.errors.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { useFiles, unuseFiles, type FileUser } from '../../../src/database/file-uses.js';
import { currentTime, execute } from '../../../src/database/sql/sql.js';
import { KEYS, startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps, passHours } from '../../support/files/file-steps.js';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { logStatements } from '../../support/postgres/statement-log.js';
import { RunSteps } from '../../support/runs/run-steps.js';

const NOBODY = '5f0c2b3e-8d1a-4c7b-9e6f-0c1d2e3f4a5b';

describe('files that clients have uploaded', () => {
  const service = useTestApp();
  const files = new FileSteps(service.send);
  const runs = new RunSteps(service.send);
  const repository = (): FileRepository => service.app.get(FileRepository, { strict: false });
  const store = () => service.app.get(Stores, { strict: false }).required();

  const use = (user: FileUser, ids: readonly string[]): Promise<string[]> =>
    service.dataSource.transaction((manager) =>
      useFiles(
        manager,
        ids.map((fileId) => ({ ...user, fileId })),
      ),
    );
  const unuse = (user: FileUser): Promise<void> =>
    service.dataSource.transaction((manager) => unuseFiles(manager, user.kind, [user.id]));
  /** One run of the job. @returns how many files it removed */
  const pass = async (fileRetentionDays = 0): Promise<number> => {
    const { app, dataSource } = service;
    const removals = app.get(FileRemovalRepository, { strict: false });
    const stores = app.get(Stores, { strict: false });
    return new FileRemovalJob(removals, stores, { fileRetentionDays }).runOnce(await currentTime(dataSource));
  };
  const hours = (n: number): Promise<unknown> => passHours(service.dataSource, n);
  const remove = (id: string) => service.send('DELETE', `/files/${id}`, { key: KEYS.client });

  describe('are deleted', () => {
    test('with their bytes and one entry of the audit log, and URLs that were made before give nothing', async () => {
      const { id, upload } = await files.stored('secret');
      const { url } = bodyOf(await files.content(id), 'FileUrl');
      const deleted = await remove(id);
      assert.deepEqual([deleted.status, deleted.text], [204, '']);
      assert.equal((await fetch(url)).status, 404);
      assertError(await remove(id), 404, `File '${id}' not found`);
      assertError(await service.send('GET', `/files/${id}`), 404, `File '${id}' not found`);
      const entries: { action: string; subject: string }[] = (await service.send('GET', '/audit')).body;
      const [entry, ...more] = entries.filter(({ subject }) => subject === id);
      assert.deepEqual(more, []);
      assert.deepEqual(entry, {
        ...entry,
        action: 'file.delete',
        run_id: null,
        before: {
          name: 'f',
          bytes: 6,
          sha256: hash('sha256', 'secret'),
          content_type: null,
          state: 'stored',
        },
        after: {},
      });
      // Its upload URL still works, and brings the bytes back.
      assert.equal((await files.put(upload, 'secret')).status, 200);
      await hours(26);
      await pass();
      assert.equal((await fetch(url)).status, 404);
      assert.equal(await store().head(`files/${id}`), undefined);
    });

    test('not while a run that has not ended, a version of a definition or a schedule uses them', async () => {
      const { id } = await files.stored('used');
      const open = await runs.create();
      const ended = await runs.inState('COMPLETED');
      assert.deepEqual(await use({ kind: 'run', id: ended.id }, [id]), []);
      for (const [user, text] of [
        [{ kind: 'run', id: open.id }, `the run '${open.id}', which has not ended`],
        [{ kind: 'definition', id: 'train 1.0.0' }, "the version of a definition 'train 1.0.0'"],
        [{ kind: 'schedule', id: 'nightly' }, "the schedule 'nightly'"],
      ] as const) {
        assert.deepEqual(await use(user, [id]), []);
        assert.equal((await files.get(id)).used_by, 2);
        assertError(await remove(id), 409, `File '${id}' is used by ${text}`);
        assert.equal((await files.get(id)).state, 'stored');
        await unuse(user);
      }
      assert.equal((await remove(id)).status, 204);
    });

    test('or used, when both are asked for at once', async () => {
      for (let round = 0; round < 20; round += 1) {
        const { id } = await files.stored('raced');
        const [missing, { status }] = await Promise.all([
          use({ kind: 'schedule', id: `race ${round}` }, [id]),
          remove(id),
        ]);
        assert.ok(missing.length === 0 ? status === 409 : status === 204, `${missing.length} ${status}`);
      }
    });

    test('once more when the store was away', async () => {
      const { id } = await files.stored('away');
      vi.spyOn(store(), 'remove').mockRejectedValueOnce(new StoreUnavailable('it is away'));
      const refusal = await remove(id);
      assertError(refusal, 503, 'The file store is not available');
      assert.ok(Number(refusal.headers.get('retry-after')) >= 1);
      assertError(await service.send('GET', `/files/${id}`), 404, `File '${id}' not found`);
      assert.ok(await store().head(`files/${id}`));
      assert.equal((await remove(id)).status, 204);
      assert.equal(await store().head(`files/${id}`), undefined);
      const entries: { subject: string }[] = (await service.send('GET', '/audit')).body;
      assert.equal(entries.filter(({ subject }) => subject === id).length, 1);
    });
  });

  test('that are awaited cannot be shown while the store is away', async () => {
    const { id } = (await files.create({ name: 'f', bytes: 1 })).body;
    vi.spyOn(store(), 'head').mockRejectedValue(new StoreUnavailable('it is away'));
    assertError(await service.send('GET', `/files/${id}`), 503, 'The file store is not available');
  });

  describe('are used', () => {
    test('as soon as the store has them, whoever asked for them before', async () => {
      const { id, upload } = (await files.create({ name: 'f', bytes: 4 })).body;
      const awaited = (await files.create({ name: 'g', bytes: 4 })).body;
      await files.put(upload, 'soon');
      const found = await repository().find([id, awaited.id, NOBODY]);
      assert.deepEqual([found.size, found.get(awaited.id)?.state], [2, 'awaited']);
      assert.deepEqual(found.get(id), {
        id,
        name: 'f',
        bytes: 4,
        sha256: hash('sha256', 'soon'),
        contentType: null,
        state: 'stored',
        key: `files/${id}`,
      });
      const user = { kind: 'schedule', id: 'soon' } as const;
      assert.deepEqual(new Set(await use(user, [id, awaited.id, NOBODY])), new Set([awaited.id, NOBODY]));
      assert.deepEqual(await use(user, [id]), []);
      assert.equal((await files.get(id)).used_by, 1);
    });
  });

  describe('are removed', () => {
    beforeEach(() => execute(service.dataSource, 'delete from files'));

    test('24 hours after they were made, stored or not, when nothing uses them', async () => {
      const [stored, awaited] = [
        await files.stored('old'),
        (await files.create({ name: 'f', bytes: 1 })).body,
      ];
      await hours(23);
      assert.equal(await pass(), 0);
      await hours(1.1);
      assert.equal(await pass(), 2);
      for (const { id } of [stored, awaited]) {
        assertError(await service.send('GET', `/files/${id}`), 404, `File '${id}' not found`);
        assert.equal(await store().head(`files/${id}`), undefined);
      }
      await hours(1);
      await pass();
      assert.deepEqual(await service.dataSource.query('select id from files'), []);
    });

    test('24 hours after the last that used them is removed, and not before', async () => {
      const { id } = await files.stored('used');
      const run = { kind: 'run', id: (await runs.inState('COMPLETED')).id } as const;
      await use(run, [id]);
      await use({ kind: 'definition', id: 'd 1' }, [id]);
      await hours(1000);
      assert.equal(await pass(), 0);
      await unuse(run);
      await hours(25);
      assert.equal(await pass(), 0);
      await unuse({ kind: 'definition', id: 'd 1' });
      await hours(23);
      assert.equal(await pass(), 0);
      await hours(1.1);
      assert.equal(await pass(), 1);
      assert.equal(await store().head(`files/${id}`), undefined);
    });

    test('24 hours after they were made again with the same content', async () => {
      const body = { name: 'f', bytes: 5, sha256: hash('sha256', 'again') };
      const { id } = await files.stored('again', body);
      await hours(23);
      assert.equal(bodyOf(await files.create(body), 'File').id, id);
      await hours(23);
      assert.equal(await pass(), 0);
      await hours(1.1);
      assert.equal(await pass(), 1);
    });

    test('in any number, by several processes, and again after a pass that broke off', async () => {
      const stored = await Promise.all(Array.from({ length: 4 }, (_, n) => files.stored(String(n))));
      await execute(
        service.dataSource,
        `insert into files (id, name, bytes, state, created_by, created_by_name, created_at, last_used_at, due_at)
         select gen_random_uuid(), 'f', 1, 'awaited', gen_random_uuid(), 'k', now(), now(), now() from generate_series(1, 1200)`,
      );
      await hours(30);
      vi.spyOn(store(), 'remove').mockRejectedValueOnce(new StoreUnavailable('it is away'));
      await assert.rejects(pass(), StoreUnavailable);
      await Promise.all([pass(), pass(), pass()]);
      assert.deepEqual(await service.dataSource.query('select id from files'), []);
      for (const { id } of stored) assert.equal(await store().head(`files/${id}`), undefined);
    });

    test('but for a row, as long after the end of the last run as SERVICE_FILE_RETENTION_DAYS says', async () => {
      const body = { name: 'f', bytes: 4, sha256: hash('sha256', 'kept') };
      const { id } = await files.stored('kept', body);
      const [first, last] = [await runs.inState('COMPLETED'), await runs.inState('FAILED')];
      const running = await runs.running();
      for (const run of [first, last, running]) await use({ kind: 'run', id: run.id }, [id]);
      await hours(24 * 40);
      assert.equal(await pass(30), 0);
      await runs.event(running.id, 'COMPLETED');
      await hours(24 * 29);
      assert.equal(await pass(30), 0);
      await use({ kind: 'schedule', id: 'weekly' }, [id]);
      await hours(24 * 2);
      assert.equal(await pass(30), 0);
      await unuse({ kind: 'schedule', id: 'weekly' });
      await hours(25);
      assert.equal(await pass(0), 0);
      assert.equal(await pass(30), 1);

      const removed = await files.get(id);
      assert.deepEqual([removed.state, removed.used_by], ['removed', 3]);
      assertError(await files.content(id), 410, `File '${id}' was removed at ${removed.removed_at}`);
      assert.equal(await store().head(`files/${id}`), undefined);
      assert.deepEqual(await use({ kind: 'schedule', id: 'weekly' }, [id]), [id]);
      assert.equal((await files.create(body)).status, 201);
      await hours(24 * 2);
      await pass(30);
      assert.equal((await files.get(id)).state, 'removed');
      for (const run of [first, last, running]) await unuse({ kind: 'run', id: run.id });
      await hours(25);
      await pass(30);
      assert.equal((await service.send('GET', `/files/${id}`)).status, 404);
    });

    test('also those that were used before there was a retention time', async () => {
      const { id } = await files.stored('before');
      await use({ kind: 'run', id: (await runs.inState('COMPLETED')).id }, [id]);
      await hours(24 * 100);
      assert.equal(await pass(0), 0);
      assert.equal(await pass(30), 1);
      assert.equal((await files.get(id)).state, 'removed');
    });
  });
});

describe('the job that removes files', () => {
  test('costs one statement a pass while no file is due, and none without a store', async () => {
    const statements = logStatements();
    for (const [url, expected] of [
      ['none', 0],
      [undefined, 1],
    ] as const) {
      const service = await startTestApp({ env: url === undefined ? {} : { SERVICE_FILES_URL: url } });
      try {
        const job = service.app.get(FileRemovalJob, { strict: false });
        const now = await currentTime(service.dataSource);
        statements.length = 0;
        assert.equal(await job.runOnce(now), 0);
        assert.equal(statements.filter((sql) => sql.includes('files')).length, expected);
      } finally {
        await service.close();
      }
    }
  });
});
