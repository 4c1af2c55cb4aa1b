import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertHealth } from '../../support/monitoring/health.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('section 4: health', () => {
  const service = useTestApp();

  describe('as specified', () => {
    test('a health check answers an object of texts', async () => {
      const { body } = await service.send('GET', '/health');
      assert.ok(Object.keys(body).length > 0);
      assert.ok(Object.values(body).every((value) => typeof value === 'string'));
    });
  });

  describe('as settled', () => {
    test('GET /health says that the service is ready, GET /health/live that it answers; neither asks for a key', async () => {
      const ready = await service.send('GET', '/health', { key: null });
      assertHealth(ready);
      const live = await service.send('GET', '/health/live', { key: null });
      assert.deepEqual([live.status, live.body], [200, { status: 'ok' }]);
    });

    test('without a database it is 503 in the same shape, and still alive', async () => {
      const lost = await startTestApp();
      await lost.database.close();
      const ready = await lost.send('GET', '/health', { key: null });
      assertHealth(ready, { database: 'unreachable' });
      assert.equal((await lost.send('GET', '/health/live', { key: null })).status, 200);
      await lost.close();
    });
  });
});
