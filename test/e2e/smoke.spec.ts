import assert from 'node:assert/strict';
import { test } from 'vitest';
import { startService } from '../support/service-process.js';
import { senderTo } from '../support/app/test-app.js';
import { openTestDatabase } from '../support/test-database.js';

test('the built program starts, takes a run from its creation to its outputs, and stops', async () => {
  const database = await openTestDatabase();
  try {
    const service = await startService({
      env: { DATABASE_URL: database.url, SERVICE_API_KEYS: 'admin:admin-key-of-the-test' },
    });
    const send = senderTo(service.url, 'admin-key-of-the-test');
    const created = await send('POST', '/runs', { body: { image: 'i', inputs: { a: 1 } } });
    assert.equal(created.status, 201, created.text);
    const heartbeat = { worker_id: 'w', resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] };
    assert.equal((await send('POST', '/workers/heartbeat', { body: heartbeat })).status, 200);
    const claimed = await send('POST', '/workers/w/claim');
    assert.equal(claimed.body.ops[0]?.id, created.body.id, claimed.text);
    const events = `/runs/${created.body.id}/events`;
    for (const [type, payload] of [
      ['STARTED', { worker_id: 'w' }],
      ['COMPLETED', { outputs: { b: 2 } }],
    ] as const) {
      const answer = await send('POST', events, { body: { type, msg: '', payload } });
      assert.ok(answer.status < 300, answer.text);
    }
    const run = await send('GET', `/runs/${created.body.id}`);
    assert.equal(run.body.state, 'COMPLETED');
    assert.deepEqual(run.body.outputs, { b: 2 });
    assert.equal(await service.stop(), 0, service.output);
  } finally {
    await database.close();
  }
});
