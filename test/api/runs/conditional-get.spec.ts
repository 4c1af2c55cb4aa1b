import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import fc from 'fast-check';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('a conditional GET', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  function get(path: string, etag?: string): Promise<TestAnswer> {
    return service.send('GET', path, etag === undefined ? {} : { headers: { 'If-None-Match': etag } });
  }

  async function etagOf(path: string): Promise<string> {
    const { status, headers } = await get(path);
    assert.equal(status, 200);
    return headers.get('ETag') ?? assert.fail('the response has no ETag');
  }

  test('is 304 without a body until the run changes', async () => {
    const { id } = await steps.running();
    for (const part of ['', '/events?include_sender=true']) {
      const path = `/runs/${id}${part}`;
      const etag = await etagOf(path);
      const { status, text, headers } = await get(path, etag);
      assert.deepEqual([status, text, headers.get('ETag')], [304, '', etag]);
      assert.equal(headers.get('Cache-Control'), 'private, no-cache');
      await steps.note(id);
      assert.equal((await get(path, etag)).status, 200);
    }
  });

  test('takes lists, weak tags, those that a proxy has changed for what it compresses, and *', async () => {
    const { id } = await steps.create();
    const etag = await etagOf(`/runs/${id}`);
    const compressed = ['gzip', 'br', 'deflate', 'zstd'].map((coding) => `${etag.slice(0, -1)}-${coding}"`);
    const weak = [`W/${etag}`, `W/${compressed[0]}`, `"a",W/${etag} ,"b"`];
    for (const known of [`"x", ${etag}`, ...weak, ...compressed, '*']) {
      assert.equal((await get(`/runs/${id}`, known)).status, 304, known);
    }
    for (const other of ['"x"', '', etag.slice(1, -1), `${etag.slice(0, -1)}x"`, `${etag.slice(0, -1)}-x"`]) {
      assert.equal((await get(`/runs/${id}`, other)).status, 200, other);
    }
  });

  test('a tag is of one representation', async () => {
    const { id } = await steps.create();
    const paths = [`/runs/${id}`, `/runs/${id}?include_events=false`, `/runs/${id}/events`];
    const etags = await Promise.all(paths.map(etagOf));
    assert.equal(new Set(etags).size, paths.length);
  });

  test('a poll that waits in vain is 304', async () => {
    const { id } = await steps.create();
    const path = `/runs/${id}/events?after=-1&wait=1`;
    const etag = await etagOf(`/runs/${id}/events`);
    assert.equal((await get(path, etag)).status, 304);
  });

  const event = fc.oneof(
    fc.integer().map((msg) => ({ type: 'NOTE', msg })),
    fc.nat({ max: 100 }).map((msg) => ({ type: 'PROGRESS', msg })),
  );
  const patch = fc.oneof(
    fc.record({ priority: fc.integer({ min: -2, max: 2 }) }),
    fc.record({ outputs: fc.dictionary(fc.constantFrom('a', 'b'), fc.nat({ max: 3 })) }),
    fc.record({ state: fc.constantFrom('PENDING', 'RUNNING', 'FAILED', 'COMPLETED') }),
  );
  /** A request that may change a run: method, path behind the run's, body. */
  const change = fc.oneof(
    event.map((body) => ['POST', '/events', body] as const),
    patch.map((body) => ['PATCH', '', body] as const),
    fc.constantFrom('/cancel', '/retry').map((path) => ['POST', path, undefined] as const),
    fc.constant(['CLAIM', '', undefined] as const),
  );

  async function apply(id: string, [method, path, body]: readonly [string, string, unknown]): Promise<void> {
    if (method === 'CLAIM') await steps.claim();
    else await service.send(method, `/runs/${id}${path}`, { body });
  }

  test('whatever changes the body changes the tag, also several changes at once', async () => {
    await steps.heartbeat();
    const rounds = fc.array(fc.array(change, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(rounds, async (commands) => {
        const { id } = await steps.create({ retry_policy: { max_attempts: 3 } });
        for (const part of ['', '?include_events=false', '/events', '/events?after=1']) {
          const bodies = new Map<string, string>();
          for (const together of commands) {
            await Promise.all(together.map((command) => apply(id, command)));
            const { headers, text } = await get(`/runs/${id}${part}`);
            const etag = headers.get('ETag') ?? assert.fail('no tag');
            assert.equal(bodies.get(etag) ?? text, text, `${part}: one tag, two bodies`);
            bodies.set(etag, text);
            assert.equal((await get(`/runs/${id}${part}`, etag)).status, 304);
          }
        }
      }),
      { numRuns: 15 },
    );
  });
});
