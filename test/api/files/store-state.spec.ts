import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { ObjectRemovalJob } from '../../../src/files/artifacts/removal/object-removal.job.js';
import { StoreSweepJob } from '../../../src/files/artifacts/removal/store-sweep.job.js';
import { StoreProbe } from '../../../src/files/stores/store-probe.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { RunRetention } from '../../../src/runs/run-retention.job.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
import { FileSteps } from '../../support/files/file-steps.js';
import { HeldRun } from '../../support/files/held-run.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { until } from '../../support/service-process.js';

const CONTENT = Buffer.alloc(300_000, 'x');

describe('the store of a service', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'longshore-folder-'));
  });
  const service = useTestApp(() => ({ env: { SERVICE_FILES_URL: `file:${folder}` } }));
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const signGet = async (): Promise<string> => {
    const store = service.app.get(Stores, { strict: false }).required();
    const options = { validS: 3600, base: service.url };
    const { url } = await store.signPut('files/x', options);
    assert.equal((await fetch(url, { method: 'PUT', body: CONTENT })).status, 200);
    return (await store.signGet('files/x', options)).url;
  };

  test('begins URLs with SERVICE_FILES_BASE_URL, and answers 503 where there are no files', async () => {
    const url = await signGet();
    const based = await startTestApp({
      env: {
        SERVICE_FILES_URL: `file:${folder}`,
        SERVICE_FILES_BASE_URL: 'https://files.example.com/below/',
      },
    });
    const without = await startTestApp({ env: { SERVICE_FILES_URL: 'none' } });
    try {
      const signed = await based.app
        .get(Stores, { strict: false })
        .required()
        .signGet('files/x', { validS: 1 });
      assert.match(signed.url, /^https:\/\/files\.example\.com\/below\/file-store\/files\/x\?/);
      assert.deepEqual(await (await fetch(url.replace(service.url, without.url))).json(), {
        detail: 'Files are not configured',
      });
      assert.throws(() => without.app.get(Stores, { strict: false }).required(), /Files are not configured/);
      const { body } = await without.send('GET', '/overview');
      assert.deepEqual(body.files, { state: 'off', since: null, detail: null });
    } finally {
      await based.close();
      await without.close();
    }
  });

  test('that is switched off later ends the runs that want files from it, hinders no others, and their rows go', async () => {
    const env = { SERVICE_FILES_URL: `file:${folder}`, SERVICE_RUN_RETENTION_DAYS: '1' };
    const before = await startTestApp({ env, database: service.database });
    const off = await startTestApp({
      env: { ...env, SERVICE_FILES_URL: 'none' },
      database: service.database,
    });
    const runs = new RunSteps(before.send);
    try {
      const artifacts = { out: { model: { path: '/m' } } };
      const old = await runs.create({ artifacts });
      await new FileSteps(before.send).execute({ model: Buffer.from('weights') });
      const held = await runs.create({ artifacts, outputs: { report: { $artifact: 'report' } } });
      const worker = await HeldRun.claim(before.send);
      await worker.started();
      const waiting = await runs.create({ artifacts });
      const plain = await runs.create();

      await new RunSteps(off.send).heartbeat('off', { capabilities: ['artifacts'] });
      const { ops } = (await off.send('POST', '/workers/off/claim?max=2')).body;
      assert.deepEqual(
        ops.map(({ id }: { id: string }) => id),
        [plain.id],
      );
      const failed = await runs.get(waiting.id);
      const { cause, error_message: message } = failed.execution_summary;
      assert.deepEqual([failed.state, cause, message], ['FAILED', 'error', 'Files are not configured']);
      const payload = { outputs: { answer: 42 }, artifacts: [{ name: 'model', etags: ['"1"'] }] };
      const ended = await worker.at(off.send).report('COMPLETED', payload);
      assert.deepEqual([ended.status, ended.body.state], [200, 'COMPLETED'], ended.text);
      const left = (await before.send('GET', `/runs/${held.id}/artifacts`)).body;
      assert.deepEqual(
        left.map(({ name, state }: { name: string; state: string }) => [name, state]),
        [
          ['model', 'missing'],
          ['report', 'missing'],
        ],
      );

      const by = `interval '2 days'`;
      await service.dataSource.query(
        `update runs set created_at = created_at - ${by}, finished_at = finished_at - ${by} where finished_at is not null`,
      );
      const objects = async () =>
        (await before.app.get(Stores, { strict: false }).required().list('runs/', { limit: 10 })).map(
          ({ key }) => key,
        );
      const key = `runs/${old.id}/1/model`;
      assert.deepEqual(await objects(), [key]);
      const retention = off.app.get(RunRetention, { strict: false });
      await retention.runOnce(new Date());
      await off.app.get(ObjectRemovalJob, { strict: false }).runOnce(new Date());
      await retention.runOnce(new Date());
      for (const { id } of [old, held, waiting])
        assert.equal((await off.send('GET', `/runs/${id}`)).status, 404);
      assert.deepEqual(await objects(), [key], 'they are not lost with the setting');
      // What others have put there stays.
      const foreign = ['files/x', `runs/${'-'.repeat(36)}/1/model`];
      for (const one of foreign) await before.app.get(Stores, { strict: false }).required().write(one, 'x');
      const sweep = before.app.get(StoreSweepJob, { strict: false });
      await sweep.runOnce(new Date(Date.now() + 9 * 86_400_000));
      assert.deepEqual(await objects(), foreign.slice(1));
      await before.app.get(Stores, { strict: false }).required().remove(foreign);
    } finally {
      await off.close();
      await before.close();
    }
  });

  test('counts bytes in, out and stored, and failures, and tells in overview and metric whether it can be used, while health does not depend on it', async () => {
    const metric = async (name: string): Promise<number> => {
      const { text } = await service.send('GET', '/metrics');
      return Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${name} `))
          ?.slice(name.length),
      );
    };
    const [before, sent] = [
      await metric('longshore_file_bytes_total{direction="in"}'),
      await metric('longshore_file_bytes_total{direction="out"}'),
    ];
    await (await fetch(await signGet())).arrayBuffer();
    assert.equal((await metric('longshore_file_bytes_total{direction="in"}')) - before, CONTENT.length);
    await until(
      async () => (await metric('longshore_file_bytes_total{direction="out"}')) - sent >= CONTENT.length,
      'the download is counted',
    );
    const probe = service.app.get(StoreProbe, { strict: false });
    await probe.probe();
    const { body: up } = await service.send('GET', '/overview');
    assert.deepEqual([up.files.state, up.files.detail], ['ok', null]);
    assert.equal(await metric('longshore_file_store_up'), 1);
    await service.app.get(StoreSweepJob, { strict: false }).runOnce(new Date());
    assert.equal(await metric('longshore_file_stored_bytes'), CONTENT.length);
    const errors = await metric('longshore_file_store_errors_total');
    await rm(join(folder, '.tmp'), { recursive: true });
    await probe.probe();
    assert.ok((await metric('longshore_file_store_errors_total')) > errors);
    await until(
      async () => (await service.send('GET', '/overview')).body.files.state === 'failing',
      'it is failing',
    );
    const { body: down } = await service.send('GET', '/overview');
    assert.equal(down.files.detail, 'open of the folder fails: ENOENT');
    assert.ok(Date.parse(down.files.since) >= Date.parse(up.files.since));
    assert.equal(await metric('longshore_file_store_up'), 0);
    assert.equal((await service.send('GET', '/health')).status, 200);
  });
});
