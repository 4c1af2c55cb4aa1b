import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { useTestApp } from '../support/app/use-test-app.js';

describe('the service over HTTP', () => {
  const service = useTestApp();

  test('says nothing about the shape of a request to a caller without a key', async () => {
    const answer = await service.send('POST', '/runs', { key: null });
    assert.equal(answer.status, 401);
    assert.deepEqual(answer.body, { detail: 'Missing API key' });
  });

  test('takes a run from its creation to its outputs', async () => {
    const { send } = service;
    const created = await send('POST', '/runs', { body: { image: 'i', inputs: { a: 1 } } });
    assert.equal(created.status, 201);
    const heartbeat = {
      worker_id: 'w',
      resources: { cpu_cores: 1, ram_mb: 1, gpus: [] },
      tags: [],
    };
    assert.equal((await send('POST', '/workers/heartbeat', { body: heartbeat })).status, 200);
    const claimed = await send('POST', '/workers/w/claim');
    assert.deepEqual(
      claimed.body.ops.map(({ id }: { id: string }) => id),
      [created.body.id],
    );
    const events = `/runs/${created.body.id}/events`;
    await send('POST', events, { body: { type: 'STARTED', msg: '', payload: { worker_id: 'w' } } });
    await send('POST', events, { body: { type: 'COMPLETED', msg: '', payload: { outputs: { b: 2 } } } });
    const ended = await send('GET', `/runs/${created.body.id}`);
    assert.equal(ended.body.state, 'COMPLETED');
    assert.deepEqual(ended.body.outputs, { b: 2 });
  });
});
