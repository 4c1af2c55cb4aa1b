import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { makeDataDir, startService, until, type ServiceProcess } from '../support/service-process.js';
import { senderTo, type Send } from '../support/test-app.js';
import { endWorker, ScriptImages } from '../support/worker-process.js';

const KEY = 'e2e-admin-key-of-the-tests';

let service: ServiceProcess;
let send: Send;

before(async () => {
  service = await startService({ dataDir: await makeDataDir(), env: { SERVICE_API_KEYS: `admin:${KEY}` } });
  send = senderTo(service.url, KEY);
});
after(async () => {
  assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
});

test('a program gets and returns numbers with all their digits', { timeout: 120_000 }, async () => {
  const images = await ScriptImages.make();
  const outputs = '{"finished_at_ns":1795358081062000000,"loss":1.0,"2":1e400,"1":0}';
  const inputs = `{"from":${outputs}}`;
  await images.add(
    'exact',
    `cp "$SERVICE_INPUT_PATH" "$SERVICE_OUTPUT_PATH"; echo '{"type":"READ","msg":"","payload":${outputs}}'`,
  );
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
