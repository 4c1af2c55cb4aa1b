import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { ApiDescription, readApiDocument } from '../../support/fuzz/api-document.js';
import { fourByteText, longestValue } from '../../support/runs/longest-values.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/** The longest values that the API allows. */
const IMAGE = 512;
const TOPIC = 255;

/** Operations whose longest body is one that succeeds. */
const SUCCEED: ReadonlySet<string> = new Set([
  'createRun',
  'upsertDefinition',
  'sendHeartbeat',
  'createApiKey',
]);

/** Fields that others of the same body require, and those whose form the longest text does not have. */
const OF_RUNS = {
  retry_policy: {
    retry_on: ['exit:0-255'],
    grow: { ram_mb: { factor: 1.000000000000001, max: 1, on: ['exit:0-255'] } },
  },
  constraints: {
    ram_mb: 1,
    gpus: 64,
    gpu_selector: Array.from({ length: 8 }, (_, n) => fourByteText(128, n)),
  },
  mounts: [{ volume: 'v'.repeat(63), path: `/${fourByteText(511, 1)}`, sub_path: fourByteText(512, 1) }],
};
const VALID: Readonly<Record<string, object>> = {
  createApiKey: { scopes: ['worker'], expires_at: null, stores: null },
  createRun: { ...OF_RUNS, start_at: null, depends_on: null },
  upsertDefinition: OF_RUNS,
};

describe('texts of the greatest length, in characters of four bytes', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  test('an image and a topic are stored together, found by both, and disturb no other run of their group', async () => {
    const image = fourByteText(IMAGE, 1);
    const topic = fourByteText(TOPIC, 2);
    const rolledBack = await rollbacks();
    const bodies = Array.from({ length: 20 }, (_, n) =>
      n === 10 ? { image, event_delivery: { topic } } : { image: 'i' },
    );
    const answers = await Promise.all(bodies.map((body) => service.send('POST', '/runs', { body })));
    assert.deepEqual(
      answers.map(({ status }) => status),
      bodies.map(() => 201),
    );
    const id = answers[10]?.body.id;
    const query = new URLSearchParams({ image, topic });
    for (const some of [[], ['image'], ['topic']]) {
      const filter = new URLSearchParams(query);
      for (const name of some) filter.delete(name);
      const { body } = await service.send('GET', `/runs?${filter.toString()}`);
      assert.deepEqual(
        body.data.map((run: { id: string }) => run.id),
        [id],
      );
    }
    await steps.event(id, 'CANCELLED');
    assert.equal(await rollbacks(), rolledBack);
  });

  async function rollbacks(): Promise<string | undefined> {
    const { text } = await service.send('GET', '/metrics');
    const line = text.split('\n').find((each) => each.startsWith('longshore_journal_rollbacks_total'));
    assert.ok(line);
    return line;
  }

  test('are accepted in every body, or refused with a reason', async () => {
    const api = new ApiDescription(readApiDocument());
    const { id } = await steps.create();
    const bodied = api.operations.filter(({ body }) => body);
    assert.ok(bodied.length > 8);
    for (const operation of bodied) {
      if (!operation.body) continue;
      const path = operation.path.replace('{id}', id).replaceAll(/\{\w+\}/g, '1');
      const body = { ...Object(longestValue(api, operation.body)), ...VALID[operation.id] };
      const answer = await service.send(operation.method, path, { body });
      assert.ok(answer.status < 500, `${operation.id}: ${answer.status} ${answer.text}`);
      if (SUCCEED.has(operation.id)) assert.ok(answer.status < 300, `${operation.id}: ${answer.text}`);
    }
  });
});
