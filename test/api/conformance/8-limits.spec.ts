import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const INT32_MAX = 2 ** 31 - 1;

describe('section 8: limits', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  /** How many things a page holds. */
  const sizeOf = async (path: string): Promise<number> => {
    const { body } = await service.send('GET', path);
    return (body.data ?? body.events).length;
  };

  describe('as specified', () => {
    test('a list of runs: 1 to 100, 10 unless asked otherwise', async () => {
      await Promise.all(Array.from({ length: 101 }, () => steps.create()));
      const paths = ['/runs', '/runs?limit=1', '/runs?limit=100'];
      assert.deepEqual(await Promise.all(paths.map(sizeOf)), [10, 1, 100]);
      for (const limit of [0, 101]) {
        assert.equal((await service.send('GET', `/runs?limit=${limit}`)).status, 400);
      }
    });

    test('a page of a feed: 1 to 500, 100 unless asked otherwise', async () => {
      const { id } = await steps.create({ event_delivery: { topic: 'limits' } });
      await Promise.all(Array.from({ length: 501 }, () => steps.note(id)));
      const paths = ['/feed?topic=limits', '/feed?topic=limits&limit=1', '/feed?topic=limits&limit=500'];
      assert.deepEqual(await Promise.all(paths.map(sizeOf)), [100, 1, 500]);
      for (const limit of [0, 501]) {
        assert.equal((await service.send('GET', `/feed?topic=limits&limit=${limit}`)).status, 400);
      }
    });

    test('progress: 0 to 100', async () => {
      const { id } = await steps.create();
      for (const [msg, status] of [
        [0, 200],
        [100, 200],
        [-1, 400],
        [101, 400],
      ] as const) {
        assert.equal((await steps.report(id, { type: 'PROGRESS', msg })).status, status);
      }
    });
  });

  describe('as settled', () => {
    test('a body: one MiB, and one byte more is 413', async () => {
      bodyOf(await service.send('POST', '/runs', { body: bodyOfBytes(1_048_576) }), 'OpRun', 201);
      const answer = await service.send('POST', '/runs', { body: bodyOfBytes(1_048_577) });
      assertError(answer, 413, 'Request body is larger than 1048576 bytes');
    });

    test('a body of another size, when it is configured', async () => {
      const small = await startTestApp({
        database: service.database,
        env: { SERVICE_MAX_BODY_BYTES: '1024' },
      });
      const answer = await small.send('POST', '/runs', {
        body: { image: 'i', inputs: { a: 'x'.repeat(1024) } },
      });
      assertError(answer, 413, 'Request body is larger than 1024 bytes');
      await small.close();
    });

    test('JSON: 64 levels, the body’s own object being the first', async () => {
      assert.equal((await service.send('POST', '/runs', { body: nested(64) })).status, 201);
      assert.equal((await service.send('POST', '/runs', { body: nested(65) })).status, 400);
    });

    for (const [title, good, bad] of [
      [
        'image: 1 to 512 characters',
        [{ image: 'i' }, { image: 'i'.repeat(512) }],
        [{ image: '' }, { image: 'i'.repeat(513) }],
      ],
      [
        'topic: 1 to 255 characters',
        [{ event_delivery: { topic: 't' } }, { event_delivery: { topic: 't'.repeat(255) } }],
        [{ event_delivery: { topic: '' } }, { event_delivery: { topic: 't'.repeat(256) } }],
      ],
      [
        'attempts of a policy: 1 to 1,000',
        [{ retry_policy: { max_attempts: 1 } }, { retry_policy: { max_attempts: 1000 } }],
        [{ retry_policy: { max_attempts: 0 } }, { retry_policy: { max_attempts: 1001 } }],
      ],
      [
        'priority: 32 bits',
        [{ priority: INT32_MAX }, { priority: -INT32_MAX - 1 }],
        [{ priority: INT32_MAX + 1 }, { priority: -INT32_MAX - 2 }],
      ],
      [
        'constraints: 0 to 2^31 - 1',
        [{ constraints: { ram_mb: 0, vram_mb: INT32_MAX, cpu: INT32_MAX } }],
        [{ constraints: { ram_mb: -1 } }, { constraints: { cpu: INT32_MAX + 1 } }],
      ],
    ] as const) {
      test(title, async () => {
        for (const body of good) {
          assert.equal((await service.send('POST', '/runs', { body: { image: 'i', ...body } })).status, 201);
        }
        for (const body of bad) {
          assert.equal((await service.send('POST', '/runs', { body: { image: 'i', ...body } })).status, 400);
        }
      });
    }

    test('the events that a run and an attempt show: the newest 1,000', async () => {
      const { id } = await steps.create();
      await Promise.all(Array.from({ length: 1001 }, () => steps.note(id)));
      const { events } = await steps.get(id);
      assert.deepEqual([events.length, events[0].id], [1000, 1]);
      assert.deepEqual((await steps.attempts(id))[0].events, events);
      assert.equal((await steps.poll(id)).length, 1001);
    });

    test('requests of a key: as many a minute as configured, then 429 that says when to come again', async () => {
      const limited = await startTestApp({ database: service.database, env: { SERVICE_RATE_LIMIT: '3' } });
      for (let i = 0; i < 3; i += 1) assert.equal((await limited.send('GET', '/runs')).status, 200);
      const answer = await limited.send('GET', '/runs');
      assert.deepEqual([answer.status, answer.body], [429, { detail: 'Too many requests' }]);
      const seconds = Number(answer.headers.get('retry-after'));
      assert.ok(seconds >= 1 && seconds <= 60);
      assert.equal((await limited.send('GET', '/runs', { key: 'test-client-key-of-the-tests' })).status, 200);
      await limited.close();
    });
  });
});

/** A body of exactly so many bytes. */
function bodyOfBytes(bytes: number): string {
  const frame = '{"image":"i","inputs":{"a":""}}';
  return frame.replace('""', `"${'x'.repeat(bytes - frame.length)}"`);
}

/** A body with so many levels of objects, itself included. */
function nested(levels: number): string {
  return `{"image":"i","inputs":${'{"a":'.repeat(levels - 2)}{}${'}'.repeat(levels - 2)}}`;
}
