import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { variables } from '../../support/runs/numbered-texts.js';
import { startTestApp, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const KIB_32 = 32 * 1024;

describe('the options of a definition', () => {
  const service = useTestApp();
  let made = 0;

  const define = async (options: object): Promise<string> => {
    made += 1;
    const body = { id: `def-${made}`, version: '1', image: 'i', ...options };
    const answer = await service.send('POST', '/definitions', { body });
    assert.equal(answer.status, 201, answer.text);
    return `/definitions/${body.id}`;
  };
  const runOf = (definition: string, body: object = {}): Promise<TestAnswer> =>
    service.send('POST', `${definition}/runs`, { body });

  const FULL = {
    env: { A: '1', B: '2' },
    command: ['c'],
    args: ['a'],
    secrets: { S: 'one', T: 'two' },
    image_pull_secret: 'login',
    selector: ['gpu'],
    concurrency: { key: 'k', limit: 3 },
    retry_policy: { max_attempts: 4, backoff_s: 5, retry_on: ['oom'] },
  };

  test('stay where a run of it gives none, or null', async () => {
    const definition = await define(FULL);
    const nulls = Object.fromEntries(Object.keys(FULL).map((field) => [field, null]));
    for (const body of [{}, nulls]) {
      const run = bodyOf(await runOf(definition, body), 'OpRun', 201);
      assert.deepEqual(run, { ...run, ...FULL });
    }
  });

  for (const [given, shown] of [
    [{ env: { B: '3', C: '4' } }, { env: { A: '1', B: '3', C: '4' } }],
    [{ secrets: { T: 'three' } }, { secrets: { S: 'one', T: 'three' } }],
    [{ env: {}, secrets: {} }, {}],
    [{ command: ['x', 'y'] }, { command: ['x', 'y'] }],
    [{ args: [] }, { args: null }],
    [{ image_pull_secret: 'other' }, { image_pull_secret: 'other' }],
    [{ selector: ['eu'] }, { selector: ['eu'] }],
    [{ selector: [] }, { selector: [] }],
    [{ concurrency: { key: 'l', limit: 1 } }, { concurrency: { key: 'l', limit: 1 } }],
    [
      { retry_policy: { retry_on: ['exit:1'] } },
      { retry_policy: { max_attempts: 4, backoff_s: 5, retry_on: ['exit:1'] } },
    ],
    [
      { constraints: { ram_mb: 1 }, retry_policy: { grow: { ram_mb: { factor: 2, max: 8 } } } },
      {
        constraints: { ram_mb: 1, vram_mb: 0, cpu: 0, gpu_id: null },
        retry_policy: {
          max_attempts: 4,
          backoff_s: 5,
          retry_on: ['oom'],
          grow: { ram_mb: { factor: 2, max: 8 } },
        },
      },
    ],
    [
      { retry_policy: { max_attempts: 2 } },
      { retry_policy: { max_attempts: 2, backoff_s: 5, retry_on: ['oom'] } },
    ],
  ] as const) {
    test(`give way to ${JSON.stringify(given)} of a run`, async () => {
      const run = bodyOf(await runOf(await define(FULL), given), 'OpRun', 201);
      assert.deepEqual(run, { ...run, ...FULL, ...shown });
    });
  }

  test('and those of the run must be valid together', async () => {
    const definition = await define({ env: variables(60), secrets: variables(60, 'name', 'S') });
    assertInvalid(await runOf(definition, { secrets: { V7: 's' } }), [
      'secrets.V7 must not be in env as well',
    ]);
    assertInvalid(await runOf(definition, { env: { S7: 's' } }), ['secrets.S7 must not be in env as well']);
    const many = { env: variables(41, '', 'W'), secrets: variables(41, 'name', 'X') };
    assertInvalid(await runOf(definition, many), [
      'env must be an object of at most 100 entries',
      'secrets must be an object of at most 100 entries',
    ]);
    const large = await define({ env: { A: 'x'.repeat(KIB_32 - 1) } });
    assertInvalid(await runOf(large, { env: { B: '' } }), [
      `env must have at most ${KIB_32} bytes of names and values`,
    ]);
  });

  test('are taken away when it is replaced without them, and the audit log has the difference', async () => {
    const definition = await define(FULL);
    const body = { id: `def-${made}`, version: '1', image: 'i', env: FULL.env };
    assert.equal((await service.send('POST', '/definitions', { body })).status, 200);
    const { body: read } = await service.send('GET', definition);
    assert.deepEqual([read.env, read.secrets, read.concurrency], [FULL.env, {}, null]);
    const [entry] = (await service.send('GET', '/audit?limit=1')).body;
    const { env: _, ...changed } = FULL;
    assert.deepEqual(entry.before, changed);
  });

  test('count towards the bytes of a definition', async () => {
    const small = await startTestApp({ env: { SERVICE_MAX_DEFINITION_BYTES: '2048' } });
    try {
      const body = { id: 'large', version: '1', image: 'i', env: { A: 'x'.repeat(2048) } };
      const answer = await small.send('POST', '/definitions', { body });
      assert.equal(answer.status, 429, answer.text);
    } finally {
      await small.close();
    }
  });
});
