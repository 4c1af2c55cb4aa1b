import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { makeDataDir, startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { endWorker, ScriptImages } from '../../support/workers/worker-process.js';

const KEY = 'e2e-admin-key-of-the-tests';

describe('free-form JSON of a program', () => {
  let service: ServiceProcess;
  let send: Send;
  let images: ScriptImages;

  beforeAll(async () => {
    service = await startService({ dataDir: await makeDataDir(), env: { SERVICE_API_KEYS: `admin:${KEY}` } });
    send = senderTo(service.url, KEY);
    images = await ScriptImages.make();
  });
  afterAll(async () => {
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  test('has all digits of its numbers', async () => {
    const outputs = '{"finished_at_ns":1795358081062000000,"loss":1.0,"2":1e400,"1":0}';
    const inputs = `{"from":${outputs}}`;
    const event = `{"type":"READ","msg":"","payload":${outputs}}`;
    await images.add('exact', `cp "$SERVICE_INPUT_PATH" "$SERVICE_OUTPUT_PATH"; echo '${event}'`);
    const created = await send('POST', '/runs', { body: `{"image":"exact","inputs":${inputs}}` });
    assert.equal(created.status, 201, created.text);
    const path = `/runs/${created.body.id}`;
    const worker = await images.startWorker({ url: service.url, key: KEY, id: 'exact' });
    await until(async () => ['COMPLETED', 'FAILED'].includes((await send('GET', path)).body.state), 'an end');
    const { text } = await send('GET', path);
    assert.ok(text.includes('"state":"COMPLETED"'), text);
    assert.ok(text.includes(`"inputs":${inputs},"outputs":${inputs},`), text);
    assert.ok(text.includes(`"msg":"","payload":${outputs}`), text);
    await endWorker(worker);
  });
});
