import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { KEYS, settingsName } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('GET /whoami', () => {
  const service = useTestApp();

  test('tells every key its name and its scopes', async () => {
    for (const [scope, key] of Object.entries(KEYS)) {
      const { status, body, headers } = await service.send('GET', '/whoami', { key });
      assert.equal(status, 200);
      const { id, ...others } = body;
      assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
      assert.deepEqual(others, {
        name: settingsName(scope, key),
        scopes: [scope],
        worker_ids: null,
        worker_tags: null,
        worker_capabilities: null,
        expires_at: null,
      });
      assert.equal(headers.get('cache-control'), 'no-store');
    }
  });

  test('tells a made key when it expires, and never its secret', async () => {
    const made = await service.send('POST', '/api-keys', {
      body: { name: 'dash', scopes: ['worker', 'client'], expires_at: '2100-01-31T10:00:00+01:00' },
    });
    const { body, text } = await service.send('GET', '/whoami', { key: made.body.key });
    assert.deepEqual(body, {
      id: made.body.id,
      name: 'dash',
      scopes: ['client', 'worker'],
      worker_ids: null,
      worker_tags: null,
      worker_capabilities: null,
      expires_at: '2100-01-31T09:00:00.000Z',
    });
    assert.ok(!text.includes(made.body.key));
  });

  test('tells when a key ends whose lifetime was given as a span', async () => {
    const body = { name: 'span', scopes: ['client'], expires_at: '90d' };
    const [before, made, after] = [Date.now(), await service.send('POST', '/api-keys', { body }), Date.now()];
    const { expires_at: end } = (await service.send('GET', '/whoami', { key: made.body.key })).body;
    const days = 90 * 86_400_000;
    assert.ok(Date.parse(end) >= before + days && Date.parse(end) <= after + days, end);
  });
});
