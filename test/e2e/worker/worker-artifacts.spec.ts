import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { startService, until, type ServiceProcess, type TestProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { ScriptImages } from '../../support/workers/worker-process.js';

const ADMIN_KEY = 'e2e-admin-key-of-the-tests';

/** Copies what it gets to what it gives, with large outputs if it is asked for. */
const PROGRAM = `const { readFileSync, mkdirSync, writeFileSync } = require('node:fs');
  const { SERVICE_FILES_ROOT: root, SERVICE_INPUT_PATH, SERVICE_OUTPUT_PATH } = process.env;
  const { large = 0 } = JSON.parse(readFileSync(SERVICE_INPUT_PATH, 'utf8'));
  const content = readFileSync(root + '/data/in.txt', 'utf8');
  writeFileSync(root + '/out/copy.txt', content + '!');
  writeFileSync(root + '/out/plots/a.png', 'a');
  writeFileSync(SERVICE_OUTPUT_PATH, JSON.stringify({ text: 'x'.repeat(large) }));`;

describe('files of runs', () => {
  let service: ServiceProcess;
  let worker: TestProcess;
  let send: Send;
  const folder = mkdtempSync(join(tmpdir(), 'e2e-files-'));

  beforeAll(async () => {
    service = await startService({
      env: { SERVICE_API_KEYS: `admin:${ADMIN_KEY}`, SERVICE_FILES_URL: `file:${folder}` },
    });
    send = senderTo(service.url, ADMIN_KEY);
    const images = await ScriptImages.make();
    await images.add('any', '');
    worker = await images.startWorker({ url: service.url, key: ADMIN_KEY, id: 'files' });
  });
  afterAll(async () => {
    worker.signal('SIGTERM');
    await worker.exited;
    assert.equal(await service.stop(), 0, service.output);
    rmSync(folder, { recursive: true, force: true });
  });

  const OUT = { copy: { path: '/out/copy.txt' }, plots: { path: '/out/plots/*.png' } };

  /** Executes a run to its end. @returns its id */
  async function execute(source: object, inputs: object = {}): Promise<string> {
    const artifacts = { in: { '/data/in.txt': source }, out: OUT };
    const body = { image: 'any', command: ['node', '-e', PROGRAM], inputs, artifacts };
    const created = await send('POST', '/runs', { body });
    assert.equal(created.status, 201, created.text);
    const { id } = created.body;
    await until(
      async () => ['COMPLETED', 'FAILED'].includes((await send('GET', `/runs/${id}`)).body.state),
      `run ${id}`,
    );
    const { body: run } = await send('GET', `/runs/${id}`);
    assert.equal(run.state, 'COMPLETED', JSON.stringify(run.execution_summary));
    return id;
  }

  async function contentOf(id: string, name: string): Promise<string> {
    const { body } = await send('GET', `/runs/${id}/artifacts/${name}?redirect=false`);
    return (await fetch(body.url)).text();
  }

  test('go from an upload into a run, out of it, and into the next one', async () => {
    const content = 'uploaded';
    const sha256 = createHash('sha256').update(content).digest('hex');
    const made = await send('POST', '/files', { body: { name: 'in.txt', bytes: content.length, sha256 } });
    assert.equal(made.status, 201, made.text);
    const { upload } = made.body;
    assert.ok((await fetch(upload.url, { method: 'PUT', headers: upload.headers, body: content })).ok);
    const first = await execute({ file: made.body.id });
    assert.equal(await contentOf(first, 'copy'), 'uploaded!');
    const second = await execute({ run: first, name: 'copy' });
    assert.equal(await contentOf(second, 'copy'), 'uploaded!!');
    assert.equal(await contentOf(second, 'plots/a.png'), 'a');
    const listed = await send('GET', `/runs/${second}/artifacts`);
    const shown = listed.body.map(({ name, bytes, state }: Record<string, unknown>) => [name, bytes, state]);
    assert.deepEqual(shown.toSorted(), [
      ['copy', 10, 'stored'],
      ['plots/a.png', 1, 'stored'],
    ]);
    const large = await execute({ run: second, name: 'copy' }, { large: 2 ** 21 });
    const { body: run } = await send('GET', `/runs/${large}`);
    assert.deepEqual(run.outputs, { $artifact: 'outputs.json' });
    assert.equal((await contentOf(large, 'outputs.json')).length, 2 ** 21 + '{"text":""}'.length);
  });
});
