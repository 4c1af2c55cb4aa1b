import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { StoreSweepJob } from '../../../src/files/artifacts/removal/store-sweep.job.js';
import { StoreProbe } from '../../../src/files/stores/store-probe.js';
import { Stores } from '../../../src/files/stores/stores.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';
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
