import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { startService, until, type ServiceProcess, type TestProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { ScriptImages } from '../../support/workers/worker-process.js';

const ADMIN_KEY = 'e2e-admin-key-of-the-tests';

/** Writes what it was given as its outputs. */
const PRINT = `const { A: env } = process.env;
  require('node:fs').writeFileSync(process.env.SERVICE_OUTPUT_PATH, JSON.stringify({ env, argv: process.argv.slice(1) }))`;

const TEXTS = [
  'two  words',
  '',
  '-e',
  '"quotes" \'single\' \\ back',
  '$(id) `id` $HOME ${run.id} $${inputs.text} $(A)',
  'lines\nand\ttabs\r',
  '* ? [a] ~ ; rm -rf / & | > < #',
  'ünï 日本 👩‍🚀 \u202e',
];

describe('inputs in arguments and environment', () => {
  let service: ServiceProcess;
  let worker: TestProcess;
  let send: Send;

  beforeAll(async () => {
    service = await startService({ env: { SERVICE_API_KEYS: `admin:${ADMIN_KEY}` } });
    send = senderTo(service.url, ADMIN_KEY);
    const images = await ScriptImages.make();
    await images.add('any', '');
    worker = await images.startWorker({ url: service.url, key: ADMIN_KEY, id: 'inputs' });
  });
  afterAll(async () => {
    worker.signal('SIGTERM');
    await worker.exited;
    assert.equal(await service.stop(), 0, service.output);
  });

  test('reach the program byte for byte, each as one word', async () => {
    const body = {
      id: 'print',
      version: '1',
      image: 'any',
      command: ['node', '-e', PRINT, '--'],
      args: [
        '${inputs.text}',
        'x${inputs.text}x${inputs.text}',
        { flag: '--each', input: 'list' },
        '${inputs.n}',
      ],
      env: { A: '${inputs.text}' },
      input_specs: { text: { type: 'string' }, list: { type: 'array' }, n: { type: 'number' } },
    };
    assert.equal((await send('POST', '/definitions', { body })).status, 201);
    const inputs = (text: string): string =>
      `{"inputs":{"text":${JSON.stringify(text)},"list":${JSON.stringify(TEXTS)},"n":12345678901234567890.10}}`;
    const made = await Promise.all(
      TEXTS.map(async (text) => {
        const created = await send('POST', '/definitions/print/runs', { body: inputs(text) });
        assert.equal(created.status, 201, created.text);
        return { text, id: created.body.id };
      }),
    );
    for (const { text, id } of made) {
      await until(async () => (await send('GET', `/runs/${id}`)).body.state === 'COMPLETED', `run ${id}`);
      const { body: run } = await send('GET', `/runs/${id}`);
      assert.deepEqual(run.outputs, {
        env: text,
        argv: [
          text,
          `x${text}x${text}`,
          ...TEXTS.flatMap((each) => ['--each', each]),
          '12345678901234567890.10',
        ],
      });
    }
  });
});
