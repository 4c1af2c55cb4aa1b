import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setImmediate } from 'node:timers/promises';
import { HeldRequests } from '../../../src/common/http/server/held-requests.js';
import { EventStreamReader } from '../../support/runs/event-stream.js';
import { startFeedApp } from '../../support/app/feed-app.js';
import { KEYS } from '../../support/app/test-app.js';

describe('the quota of readers', () => {
  test('limits the number of streams and polls of one key, and leaves the others theirs', async () => {
    const service = await startFeedApp({ env: { SERVICE_READERS_PER_KEY: '1' } });
    const reader = await EventStreamReader.open(service.url, '/feed/stream?topic=own');
    for (const path of ['/feed/stream?topic=own', '/feed?topic=own&wait=1']) {
      const refused = await service.send('GET', path, { key: KEYS.client });
      assert.equal(refused.status, 429);
      assert.deepEqual(refused.body, {
        detail:
          'Too many streams and waiting polls of feeds of this API key: at most 1 (SERVICE_READERS_PER_KEY)',
      });
      assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    }
    assert.equal((await service.send('GET', '/feed?topic=own&wait=1', { key: KEYS.admin })).status, 200);
    const { text } = await service.send('GET', '/metrics');
    assert.match(text, /^longshore_refused_total\{limit="SERVICE_READERS_PER_KEY"\} 2$/m);
    reader.close();
    const held = service.app.get(HeldRequests);
    while (held.size > 0) await setImmediate();
    assert.equal((await service.send('GET', '/feed?topic=own&wait=1', { key: KEYS.client })).status, 200);
    await service.close();
  });
});
