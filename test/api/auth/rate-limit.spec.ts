import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { Controller, Get, Module } from '@nestjs/common';
import { SkipThrottle, Throttle } from '@nestjs/throttler';
import { AllowScopes } from '../../../src/auth/access.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { until } from '../../support/app/passing-time.js';
import { HeldClock, issueKey, knock } from '../../support/app/api-keys.js';
import { KEYS, startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const LIMIT = 20;
const MINUTE_MS = 60_000;

describe('with a rate limit, a key', () => {
  const service = useTestApp({ env: { SERVICE_RATE_LIMIT: String(LIMIT) } });
  let clock: HeldClock;

  beforeAll(() => {
    clock = new HeldClock(service);
  });

  /** Begins a minute in which nobody has sent anything. */
  function freshMinute(): void {
    clock.advance(MINUTE_MS);
  }

  async function use(requests: number, key: string): Promise<void> {
    for (let n = 0; n < requests; n += 1) assert.equal((await knock(service, key)).status, 200);
  }

  test('may send its requests a minute, over all routes, and is told when to come again', async () => {
    freshMinute();
    await use(LIMIT - 2, KEYS.client);
    assert.equal((await service.send('GET', '/runs', { key: KEYS.client })).status, 200);
    assert.equal((await service.send('GET', '/runs/x', { key: KEYS.client })).status, 404);
    clock.advance(18_500);
    const over = await knock(service, KEYS.client);
    assertError(over, 429, 'Too many requests');
    assert.equal(over.headers.get('retry-after'), '42');
    clock.advance(41_499);
    assert.equal((await knock(service, KEYS.client)).headers.get('retry-after'), '1');
    clock.advance(1);
    await use(LIMIT, KEYS.client);
    assert.equal((await knock(service, KEYS.client)).status, 429);
  });

  test('does not share its requests with another, of settings or database', async () => {
    freshMinute();
    const made = [await issueKey(service, ['client']), await issueKey(service, ['client'])];
    for (const key of [KEYS.client, KEYS.worker, ...made.map((one) => one.key)]) await use(LIMIT, key);
    for (const { key } of made) assert.equal((await knock(service, key)).status, 429);
  });

  test('that is wrong, or lacks the scope, uses up nothing', async () => {
    freshMinute();
    for (let n = 0; n < 2 * LIMIT; n += 1) {
      assert.equal((await knock(service, 'wrong')).status, 401);
      assert.equal((await service.send('GET', '/audit', { key: KEYS.worker })).status, 403);
    }
    await use(LIMIT, KEYS.worker);
    assert.equal((await knock(service, KEYS.worker)).status, 429);
    assert.equal((await knock(service, 'wrong')).status, 401);
    assert.equal((await service.send('GET', '/audit', { key: KEYS.worker })).status, 403);
  });

  test('is told so before anything about its request is judged, and nothing happens', async () => {
    freshMinute();
    await use(LIMIT, KEYS.client);
    const send = (body: unknown, headers = {}) =>
      service.send('POST', '/runs', { key: KEYS.client, body, headers });
    assertError(await send('{'), 429, 'Too many requests');
    assertError(await send('x', { 'Content-Type': 'text/plain' }), 429, 'Too many requests');
    assertError(await send('x'.repeat(2_000_000)), 429, 'Too many requests');
    assertError(await send({ image: 'refused' }), 429, 'Too many requests');
    const list = await service.send('GET', '/runs?image=refused', { key: KEYS.admin });
    assert.deepEqual(list.body.data, []);
    assertError(await service.send('GET', '/nope', { key: KEYS.client }), 404, 'Not found');
  });

  test('is not needed, and not counted, for health and the API description', async () => {
    freshMinute();
    await use(LIMIT, KEYS.client);
    for (let n = 0; n < 2 * LIMIT; n += 1) {
      for (const path of ['/health', '/health/live', '/docs-json']) {
        assert.equal((await service.send('GET', path, { key: KEYS.client })).status, 200);
      }
    }
  });

  test('that floods keeps no other from being answered', async () => {
    freshMinute();
    const stop = new AbortController();
    let refused = 0;
    const flood = Promise.all(
      Array.from({ length: 16 }, async () => {
        while (!stop.signal.aborted) {
          const { status } = await service.send('GET', '/runs', { key: KEYS.client });
          if (status === 429) refused += 1;
        }
      }),
    );
    const heartbeat = { worker_id: 'w', resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] };
    for (let n = 0; n < LIMIT && !stop.signal.aborted; n += 1) {
      const floodsOn = refused + 11;
      await until(
        () => Promise.resolve(refused),
        (count) => count >= floodsOn,
      );
      const { status } = await service.send('POST', '/workers/heartbeat', {
        key: KEYS.worker,
        body: heartbeat,
      });
      if (status !== 200) stop.abort();
    }
    const undisturbed = !stop.signal.aborted;
    stop.abort();
    await flood;
    assert.ok(undisturbed);
    assert.ok(refused > 10 * LIMIT, `${refused} refused`);
  });
});

@Controller('team')
@AllowScopes('client')
class TeamController {
  @Get('skipped')
  @SkipThrottle()
  skipped(): void {}

  @Get('throttled')
  @Throttle({ default: { limit: 1, ttl: 1000 } })
  throttled(): void {}
}

@Module({ controllers: [TeamController] })
class TeamModule {}

test('decorators of the throttler on an extension do not change the limit of the service', async () => {
  const service = await startTestApp({ env: { SERVICE_RATE_LIMIT: '4' }, extensions: [TeamModule] });
  try {
    const statuses: number[] = [];
    for (const path of [
      '/team/throttled',
      '/team/throttled',
      '/team/skipped',
      '/team/skipped',
      '/team/skipped',
    ]) {
      statuses.push((await service.send('GET', path, { key: KEYS.client })).status);
    }
    assert.deepEqual(statuses, [200, 200, 200, 200, 429]);
  } finally {
    await service.close();
  }
});

test('429 is documented for every route that needs a key', async () => {
  const service = await startTestApp();
  try {
    const { body } = await service.send('GET', '/docs-json');
    const operations = Object.values<Record<string, { security?: unknown[]; responses: object }>>(body.paths);
    for (const operation of operations.flatMap((path) => Object.values(path))) {
      assert.equal('429' in operation.responses, (operation.security ?? []).length > 0);
    }
  } finally {
    await service.close();
  }
});
