import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { setImmediate } from 'node:timers/promises';
import { HeldRequests } from '../../../src/common/http/server/held-requests.js';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, startTestApp, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp, useTestDatabase } from '../../support/app/use-test-app.js';

async function eventsOf(answer: Promise<TestAnswer>): Promise<{ readonly type: string }[]> {
  return bodyOf(await answer, 'PolledEvents').events;
}

describe('GET /runs/{id}/events?wait', () => {
  const database = useTestDatabase();
  const service = useTestApp(() => ({ database, env: { SERVICE_READERS_PER_KEY: '1' } }));
  const steps = new RunSteps(service.send);

  /** Starts a poll of a run without a topic, and resolves once the service holds it. */
  async function poll(id: string, query: string): Promise<{ readonly answer: Promise<TestAnswer> }> {
    const answer = service.send('GET', `/runs/${id}/events?${query}`);
    const held = service.app.get(HeldRequests);
    while (held.size === 0) await setImmediate();
    return { answer };
  }

  test('holds the answer until the next event', async () => {
    const { id } = await steps.create();
    const { answer } = await poll(id, 'wait=30');
    await steps.note(id);
    assert.deepEqual(
      (await eventsOf(answer)).map(({ type }) => type),
      ['NOTE'],
    );
  });

  test('holds the answer until an event of another process', async () => {
    const other = await startTestApp({ database });
    const { id } = await steps.create();
    const { answer } = await poll(id, 'after=-1&wait=30');
    await new RunSteps(other.send).note(id);
    assert.equal((await eventsOf(answer)).length, 1);
    await other.close();
  });

  test('ends with the run, also when an admin ends it, and at once for a run that has ended', async () => {
    const { id } = await steps.create();
    const { answer } = await poll(id, 'wait=30');
    await service.send('PATCH', `/runs/${id}`, { body: { state: 'CANCELLED' } });
    assert.deepEqual(await eventsOf(answer), []);
    assert.deepEqual(await eventsOf(service.send('GET', `/runs/${id}/events?wait=30`)), []);
  });

  test('answers with an empty list when the time is over', async () => {
    const { id } = await steps.create();
    assert.deepEqual(await eventsOf(service.send('GET', `/runs/${id}/events?wait=1`)), []);
  });

  test('refuses unknown runs, other waits, and more polls than a key may have', async () => {
    const { id } = await steps.create();
    const unknown = await service.send('GET', '/runs/00000000-0000-7000-8000-000000000000/events?wait=30');
    assert.equal(unknown.status, 404);
    for (const wait of ['31', '-1', '1.5']) {
      assertInvalid(await service.send('GET', `/runs/${id}/events?wait=${wait}`), [
        'wait must be an integer from 0 to 30',
      ]);
    }
    const { answer } = await poll(id, 'wait=30');
    const refused = await service.send('GET', `/runs/${id}/events?wait=30`, { key: KEYS.admin });
    assert.equal(refused.status, 429);
    assert.equal(
      refused.body.detail,
      'Too many streams and waiting polls of runs and timelines of this API key: at most 1 (SERVICE_READERS_PER_KEY)',
    );
    await steps.note(id);
    assert.equal((await eventsOf(answer)).length, 1);
  });
});
