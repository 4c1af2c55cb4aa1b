import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/** What controls a terminal, or the direction of text. */
const HIDDEN = ['\u001b', '\u0085', '\u061c', '\u200e', '\u200f', '\u202a', '\u202e', '\u2066', '\u2069'];

/** What a text of one line does not have either. */
const SEPARATORS = ['\n', '\u2028', '\u2029'];

/** What stays allowed: letters of any script, marks and joiners that words need, emoji of several characters. */
const SHOWN = 'naïve שלום می\u200cخواهم 日本 👩‍🚀';

describe('a text that people will see', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let id: string;
  const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
  const beat = { worker_id: 'shown', tags: [], resources };

  beforeAll(async () => {
    ({ id } = await steps.create());
  });

  const PLACES: readonly (readonly [
    place: string,
    method: string,
    path: () => string,
    body: (text: string) => object,
  ])[] = [
    ['name', 'POST', () => '/runs', (text) => ({ image: 'i', name: text })],
    ['selector', 'POST', () => '/runs', (text) => ({ image: 'i', selector: [text] })],
    ['labels.team', 'POST', () => '/runs', (text) => ({ image: 'i', labels: { team: text } })],
    [
      'concurrency.key',
      'POST',
      () => '/runs',
      (text) => ({ image: 'i', concurrency: { key: text, limit: 1 } }),
    ],
    [
      'event_delivery.topic',
      'POST',
      () => '/runs',
      (text) => ({ image: 'i', event_delivery: { topic: text } }),
    ],
    [
      'constraints.gpu_selector',
      'POST',
      () => '/runs',
      (text) => ({ image: 'i', constraints: { gpus: 1, gpu_selector: [text] } }),
    ],
    ['files', 'POST', () => '/runs', (text) => ({ image: 'i', files: { [`/${text}`]: { content: '' } } })],
    [
      'description',
      'POST',
      () => '/definitions',
      (text) => ({ id: 'd', version: '1', image: 'i', description: text }),
    ],
    ['reason', 'POST', () => '/runs/batch/cancel', (text) => ({ ids: ['x'], reason: text })],
    ['reason', 'POST', () => `/runs/${id}/cancel`, (text) => ({ reason: text })],
    [
      'reason',
      'POST',
      () => '/bulk-operations',
      (text) => ({ action: 'cancel', filter: { name_prefix: 'none' }, dry_run: true, reason: text }),
    ],
    ['tags', 'POST', () => '/workers/heartbeat', (text) => ({ ...beat, tags: [text] })],
    ['capabilities', 'POST', () => '/workers/heartbeat', (text) => ({ ...beat, capabilities: [text] })],
    [
      'resources.gpus[0].tags',
      'POST',
      () => '/workers/heartbeat',
      (text) => ({ ...beat, resources: { ...resources, gpus: [{ id: 0, vram_mb: 1, tags: [text] }] } }),
    ],
    ...(['name', 'version', 'runtime', 'runtime_version'] as const).map(
      (field) =>
        [
          `container_engine.${field}`,
          'POST',
          () => '/workers/heartbeat',
          (text: string) => ({
            ...beat,
            container_engine: { name: 'n', version: 'v', runtime: 'r', [field]: text },
          }),
        ] as const,
    ),
    [
      'not_claiming[0].message',
      'POST',
      () => '/workers/heartbeat',
      (text) => ({ ...beat, not_claiming: [{ reason: 'disk_full', message: text }] }),
    ],
    [
      'unable[0].message',
      'POST',
      () => '/workers/heartbeat',
      (text) => ({ ...beat, unable: [{ ability: 'gpus', message: text }] }),
    ],
    ...(['id', 'image'] as const).map(
      (field) =>
        [
          `running_ops[0].${field}`,
          'POST',
          () => '/workers/heartbeat',
          (text: string) => ({
            ...beat,
            running_ops: [{ id: 'i', image: 'i', inputs: {}, constraints: {}, [field]: text }],
          }),
        ] as const,
    ),
    [
      'ending_ops[0].id',
      'POST',
      () => '/workers/heartbeat',
      (text) => ({ ...beat, ending_ops: [{ id: text, attempt: 1 }] }),
    ],
    ...(['input_specs', 'output_specs'] as const).map(
      (field) =>
        [
          `${field}.a.type`,
          'POST',
          () => '/definitions',
          (text: string) => ({ id: 'd', version: '2', image: 'i', [field]: { a: { type: text } } }),
        ] as const,
    ),
    [
      'worker_tags',
      'POST',
      () => '/api-keys',
      (text) => ({ name: 'k', scopes: ['worker'], worker_tags: [text] }),
    ],
  ];
  for (const [place, method, path, body] of PLACES) {
    test(`may be in another script and has nothing hidden: ${place} of ${method} ${path().replace('undefined', '{id}')}`, async () => {
      for (const character of place === 'description' ? HIDDEN : [...HIDDEN, ...SEPARATORS]) {
        const { status, text } = await service.send(method, path(), { body: body(`a${character}b`) });
        assert.equal(status, 400, `U+${character.charCodeAt(0).toString(16)}: ${text}`);
        assert.match(text, /without control characters/);
        assert.ok(!text.includes(character));
      }
      const { status, text } = await service.send(method, path(), { body: body(SHOWN) });
      assert.ok(status < 300, text);
    });
  }

  test('may have several lines as a description, not elsewhere', async () => {
    const definition = { id: 'lines', version: '1', image: 'i', description: 'a\n\tb\r\nc\u2028d' };
    assert.equal((await service.send('POST', '/definitions', { body: definition })).status, 201);
    assert.equal((await service.send('POST', '/runs', { body: { image: 'i', name: 'a\nb' } })).status, 400);
  });

  test('is not the message of an event, which a program prints', async () => {
    const run = await steps.running();
    const body = { type: 'NOTE', msg: 'a\u001b[31m\u202eb', payload: {} };
    assert.equal((await service.send('POST', `/runs/${run.id}/events`, { body })).status, 200);
  });
});
