import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('events of an attempt beyond their limits', () => {
  const service = useTestApp({
    env: { SERVICE_MAX_ATTEMPT_EVENTS: '5', SERVICE_MAX_ATTEMPT_EVENT_BYTES: '2048' },
  });
  const steps = new RunSteps(service.send);

  const types = async (id: string): Promise<string[]> => (await steps.poll(id)).map(({ type }) => type);

  test('are answered as others and not recorded, and the run still ends', async () => {
    const { id } = await steps.running({ event_delivery: { topic: 'limited' } });
    for (let n = 0; n < 9; n += 1) await steps.note(id);
    const { progress } = await steps.event(id, 'PROGRESS', undefined, 50);
    assert.equal(progress, 50);
    const { state } = await steps.event(id, 'COMPLETED');
    assert.equal(state, 'COMPLETED');
    const recorded = ['STARTED', ...Array.from({ length: 5 }, () => 'NOTE'), 'EVENTS_DROPPED', 'COMPLETED'];
    assert.deepEqual(await types(id), recorded);
    const { body } = await service.send('GET', '/feed?topic=limited');
    assert.deepEqual(
      body.events.map(({ type }: { type: string }) => type),
      recorded,
    );
  });

  test('are counted over all routes that record them', async () => {
    const { id } = await steps.running();
    const events = Array.from({ length: 4 }, () => ({ run_id: id, attempt: 1, type: 'NOTE', msg: '' }));
    for (let n = 0; n < 2; n += 1) {
      const answer = await service.send('POST', '/workers/w/events', { body: { events } });
      assert.equal(answer.status, 200, answer.text);
    }
    await steps.note(id);
    assert.deepEqual((await types(id)).filter((type) => type === 'NOTE').length, 5);
    assert.equal((await types(id)).at(-1), 'EVENTS_DROPPED');
  });

  test('are bounded in bytes', async () => {
    const { id } = await steps.running();
    for (let n = 0; n < 4; n += 1) await steps.event(id, 'NOTE', { text: 'x'.repeat(900) });
    assert.deepEqual(await types(id), ['STARTED', 'NOTE', 'NOTE', 'EVENTS_DROPPED']);
  });
});
