import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/** One request of every kind, and the scopes beside admin that may send it. */
const REQUESTS: readonly (readonly [method: string, path: string, scopes: readonly string[]])[] = [
  ['GET', '/runs', ['client', 'worker']],
  ['POST', '/runs', ['client']],
  ['GET', '/runs/x', ['client', 'worker']],
  ['PATCH', '/runs/x', []],
  ['POST', '/runs/x/retry', ['client']],
  ['POST', '/runs/x/cancel', ['client']],
  ['GET', '/runs/x/events', ['client', 'worker']],
  ['POST', '/runs/x/events', ['client', 'worker']],
  ['GET', '/runs/x/attempts', ['client', 'worker']],
  ['GET', '/workers', ['client']],
  ['POST', '/workers/heartbeat', ['worker']],
  ['POST', '/workers/x/claim', ['worker']],
  ['GET', '/definitions', ['client']],
  ['POST', '/definitions', ['client']],
  ['GET', '/definitions/x', ['client']],
  ['POST', '/definitions/x/runs', ['client']],
  ['GET', '/feed', ['client']],
  ['GET', '/feed/stream', ['client']],
  ['GET', '/audit', []],
  ['GET', '/api-keys', []],
  ['POST', '/api-keys', []],
  ['DELETE', '/api-keys/x', []],
  ['PUT', '/secrets/x', []],
  ['GET', '/secrets', []],
  ['DELETE', '/secrets/x', []],
  ['POST', '/secrets/rotate', []],
  ['GET', '/runs/x/secrets', ['worker']],
  ['GET', '/metrics', ['client', 'worker']],
];

describe('section 5: authentication', () => {
  const service = useTestApp();

  describe('as specified', () => {
    test('the API key is read from a header', async () => {
      assert.equal((await service.send('GET', '/runs', { key: KEYS.client })).status, 200);
      assert.equal((await service.send('GET', `/runs?api_key=${KEYS.client}`, { key: null })).status, 401);
    });
  });

  describe('as settled', () => {
    test('the header is X-API-Key, or Authorization with a bearer', async () => {
      for (const [name, value] of [
        ['X-API-Key', KEYS.client],
        ['Authorization', `Bearer ${KEYS.client}`],
      ] as const) {
        const answer = await service.send('GET', '/runs', { key: null, headers: { [name]: value } });
        assert.equal(answer.status, 200);
      }
    });

    test('a key in Authorization without the scheme Bearer is told where it belongs', async () => {
      for (const value of [KEYS.client, `Token ${KEYS.client}`, `Basic ${btoa(`k:${KEYS.client}`)}`]) {
        const headers = { Authorization: value };
        assertError(await service.send('GET', '/runs', { key: null, headers }), 401, 'Invalid API key', [
          'the key must be in the header X-API-Key: KEY, or in Authorization: Bearer KEY',
        ]);
      }
    });

    for (const [method, path, scopes] of REQUESTS) {
      test(`${method} ${path} asks for a key with its scope before it looks at anything else`, async () => {
        assertError(await service.send(method, path, { key: null }), 401, 'Missing API key');
        assertError(await service.send(method, path, { key: 'wrong' }), 401, 'Invalid API key');
        for (const scope of ['client', 'worker'] as const) {
          const { status, body } = await service.send(method, path, { key: KEYS[scope] });
          if (scopes.includes(scope)) assert.ok(status !== 401 && status !== 403, `${scope}: ${status}`);
          else assert.deepEqual([status, Object.keys(body)], [403, ['detail']]);
        }
        const { status } = await service.send(method, path);
        assert.ok(status !== 401 && status !== 403, `admin: ${status}`);
      });
    }

    test('a key without the scope is told which one it lacks', async () => {
      const { send } = service;
      assertError(await send('POST', '/runs', { key: KEYS.worker }), 403, `API key lacks scope 'client'`);
      assertError(await send('PATCH', '/runs/x', { key: KEYS.client }), 403, `API key lacks scope 'admin'`);
    });

    for (const path of ['/health', '/health/live', '/docs', '/docs-json']) {
      test(`GET ${path} needs no key`, async () => {
        assert.equal((await service.send('GET', path, { key: null })).status, 200);
      });
    }

    test('an unknown route is 404 with or without a key', async () => {
      for (const key of [null, 'wrong', KEYS.client]) {
        assertError(await service.send('GET', '/nowhere', { key }), 404, 'Not found');
      }
    });

    test('an admin makes a key, which works until it is revoked and is never shown again', async () => {
      const made = await service.send('POST', '/api-keys', { body: { name: 'ci', scopes: ['client'] } });
      assert.equal(made.status, 201);
      const { key, ...shown } = made.body;
      assert.deepEqual(Object.keys(shown).toSorted(), [
        'created_at',
        'expires_at',
        'id',
        'last_used_at',
        'max_file_bytes',
        'name',
        'prefix',
        'revoked_at',
        'scopes',
        'stores',
        'worker_capabilities',
        'worker_ids',
        'worker_tags',
      ]);
      assert.ok(key.startsWith(shown.prefix) && key.length > shown.prefix.length);
      await new RunSteps((method, path, request) => service.send(method, path, { ...request, key })).create();
      const listed = await service.send('GET', '/api-keys');
      assert.ok(!listed.text.includes(key));
      const [found] = listed.body;
      assert.deepEqual({ ...found, last_used_at: null }, shown);
      const revoked = await service.send('DELETE', `/api-keys/${shown.id}`);
      assert.deepEqual([revoked.status, revoked.text], [204, '']);
      assertError(await service.send('GET', '/runs', { key }), 401, 'Invalid API key');
    });

    test('a key that has expired is as good as a wrong one', async () => {
      const made = await service.send('POST', '/api-keys', {
        body: {
          name: 'short',
          scopes: ['client'],
          expires_at: new Date(Date.now() + 3_600_000).toISOString(),
        },
      });
      assert.equal((await service.send('GET', '/runs', { key: made.body.key })).status, 200);
      const past = { name: 'past', scopes: ['client'], expires_at: '2001-01-01T00:00:00Z' };
      const late = await service.send('POST', '/api-keys', { body: past });
      if (late.status === 201) {
        assertError(await service.send('GET', '/runs', { key: late.body.key }), 401, 'Invalid API key');
      } else assert.equal(late.status, 400);
    });
  });
});
