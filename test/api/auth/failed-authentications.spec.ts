import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, test, vi } from 'vitest';
import { makeApiKey } from '../../../src/auth/api-key.js';
import { ApiKeysRepository } from '../../../src/auth/api-keys.repository.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { HeldClock, issueKey, knock } from '../../support/app/api-keys.js';
import { until } from '../../support/app/passing-time.js';
import { KEYS, startTestApp, type TestApp } from '../../support/app/test-app.js';

const LIMIT = 5;
const DETAIL = 'Too many failed authentications (SERVICE_AUTH_FAILURE_LIMIT)';

describe('failed authentications', () => {
  let service: TestApp;
  let clock: HeldClock;

  beforeAll(async () => {
    service = await startTestApp({ env: { SERVICE_AUTH_FAILURE_LIMIT: String(LIMIT) } });
    clock = new HeldClock(service);
  });
  afterAll(() => {
    vi.restoreAllMocks();
    return service.close();
  });

  /** Uses up the failures of a new second. */
  const exhaust = async (): Promise<void> => {
    clock.advance(1000);
    for (let n = 0; n < LIMIT; n += 1) {
      assertError(await knock(service, `wrong-key-number-${n}`), 401, 'Invalid API key');
    }
  };

  test('are refused beyond the limit of a second, even with a right key that is new at this address', async () => {
    await exhaust();
    for (const key of ['another-wrong-key', makeApiKey('admin'), KEYS.client]) {
      const answer = await knock(service, key);
      assertError(answer, 429, DETAIL);
      assert.equal(answer.headers.get('retry-after'), '1');
    }
    clock.advance(1000);
    assertError(await knock(service, 'another-wrong-key'), 401, 'Invalid API key');
    assert.equal((await knock(service, KEYS.client)).status, 200);
  });

  test('do not harm a key that was right from this address before, even if it must be looked up again', async () => {
    const { key } = await issueKey(service, ['client']);
    assert.equal((await knock(service, key)).status, 200);
    clock.advance(60_000);
    await exhaust();
    assertError(await knock(service, 'another-wrong-key'), 429, DETAIL);
    for (let n = 0; n < 3; n += 1) {
      assert.equal((await knock(service, key)).status, 200);
      assert.equal((await knock(service, KEYS.admin)).status, 200);
    }
  });

  test('beyond the limit refuse a second key of a request whose first one was looked up meanwhile', async () => {
    clock.advance(1000);
    const repository = service.app.get(ApiKeysRepository, { strict: false });
    const release = new AbortController();
    const asked = vi.spyOn(repository, 'findUsable').mockImplementation(async () => {
      await once(release.signal, 'abort');
      return [];
    });
    const answer = service.send('GET', '/whoami', {
      key: makeApiKey('client'),
      headers: { authorization: 'Bearer another-wrong-key' },
    });
    await until(
      async () => asked.mock.calls.length,
      (count) => count === 1,
    );
    await exhaust();
    release.abort();
    assertError(await answer, 429, DETAIL);
    asked.mockRestore();
    assert.equal((await service.send('GET', '/health', { key: null })).status, 200);
  });

  test('beyond the limit cost no query', async () => {
    await exhaust();
    const asked = vi.spyOn(service.app.get(ApiKeysRepository, { strict: false }), 'findUsable');
    assertError(await knock(service, makeApiKey('client')), 429, DETAIL);
    assert.equal(asked.mock.calls.length, 0);
  });

  test('are not requests without a key, and health stays open', async () => {
    clock.advance(1000);
    for (let n = 0; n < 3 * LIMIT; n += 1) {
      assertError(await service.send('GET', '/runs', { key: null }), 401, 'Missing API key');
    }
    await exhaust();
    assertError(await service.send('GET', '/runs', { key: null }), 401, 'Missing API key');
    assert.equal((await service.send('GET', '/health', { key: 'another-wrong-key' })).status, 200);
  });
});
