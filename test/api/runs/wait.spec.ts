import assert from 'node:assert/strict';
import { setImmediate } from 'node:timers/promises';
import { describe, test } from 'vitest';
import { HeldRequests } from '../../../src/common/http/server/held-requests.js';
import { RunRetention } from '../../../src/runs/run-retention.job.js';
import { KEYS, startTestApp, type TestAnswer } from '../../support/app/test-app.js';
import { assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp, useTestDatabase } from '../../support/app/use-test-app.js';

const UNKNOWN = '00000000-0000-7000-8000-000000000000';

/** A request that waits. */
interface Waiting {
  readonly answer: Promise<TestAnswer>;
  readonly isAnswered: () => boolean;
}

/** The state with which a request is answered. */
async function stateOf({ answer }: Waiting): Promise<string> {
  return bodyOf(await answer, 'OpRun').state;
}

describe('GET /runs/{id}?wait', () => {
  const database = useTestDatabase();
  const service = useTestApp(() => ({
    database,
    env: { SERVICE_READERS_PER_KEY: '2', SERVICE_RUN_RETENTION_DAYS: '1' },
  }));
  const other = useTestApp(() => ({ database }));
  const steps = new RunSteps(service.send);

  /** Sends a request that waits, and resolves once the service holds it. */
  async function wait(id: string, query: string, etag?: string, at = service): Promise<Waiting> {
    const held = at.app.get(HeldRequests);
    const before = held.size;
    let isAnswered = false;
    const answer = at
      .send('GET', `/runs/${id}?${query}`, etag === undefined ? {} : { headers: { 'If-None-Match': etag } })
      .finally(() => (isAnswered = true));
    const waiting = { answer, isAnswered: () => isAnswered };
    while (held.size === before && !waiting.isAnswered()) await setImmediate();
    return waiting;
  }

  async function etagOf(id: string): Promise<string> {
    return (await service.send('GET', `/runs/${id}`)).headers.get('ETag') ?? assert.fail('no ETag');
  }

  test('holds the answer until the run has ended, and answers it as a GET without wait does', async () => {
    const { id } = await steps.running();
    const waiting = await wait(id, 'wait=60');
    await steps.note(id);
    await steps.event(id, 'PROGRESS', undefined, 40);
    assert.equal(waiting.isAnswered(), false);
    await steps.event(id, 'COMPLETED', { outputs: { n: 1 } });
    const { status, headers, body } = await waiting.answer;
    const now = await service.send('GET', `/runs/${id}`);
    assert.equal(status, 200);
    assert.deepEqual(body, now.body);
    assert.equal(headers.get('ETag'), now.headers.get('ETag'));
  });

  test('answers at once when the run is so already', async () => {
    const { id } = await steps.running();
    assert.equal(await stateOf(await wait(id, 'wait=60&until=started')), 'RUNNING');
    await service.send('POST', `/runs/${id}/cancel`);
    for (const until of ['ended', 'started'])
      assert.equal(await stateOf(await wait(id, `wait=60&until=${until}`)), 'CANCELLED');
  });

  test('waits for the start: not for the claim, and also for the end of a run that never started', async () => {
    const { id } = await steps.create();
    const waiting = await wait(id, 'wait=60&until=started');
    await steps.heartbeat();
    await steps.claimUntil(id);
    assert.equal((await steps.get(id)).state, 'ASSIGNED');
    assert.equal(waiting.isAnswered(), false);
    await steps.event(id, 'STARTED', { worker_id: 'w' });
    assert.equal(await stateOf(waiting), 'RUNNING');
    const { id: never } = await steps.create();
    const inVain = await wait(never, 'wait=60&until=started');
    await service.send('POST', `/runs/${never}/cancel`);
    assert.equal(await stateOf(inVain), 'CANCELLED');
  });

  test('waits for any change since the request arrived: of state, timeline, priority', async () => {
    const { id } = await steps.create();
    await steps.heartbeat();
    for (const change of [
      () => service.send('PATCH', `/runs/${id}`, { body: { priority: 3 } }),
      () => steps.note(id),
      () => steps.claimUntil(id),
    ]) {
      const { id: unchanged } = await steps.create({ selector: ['no-worker-has-it'] });
      const inVain = await wait(unchanged, 'wait=60&until=changed');
      const waiting = await wait(id, 'wait=60&until=changed');
      await change();
      const { body, headers } = await waiting.answer;
      assert.equal(inVain.isAnswered(), false, 'it was not the end of the time that ended the wait');
      await service.send('POST', `/runs/${unchanged}/cancel`);
      await inVain.answer;
      assert.deepEqual(body, await steps.get(id));
      assert.equal(headers.get('ETag'), await etagOf(id));
    }
  });

  test('waits for a change since the version of If-None-Match, which may have come before the request', async () => {
    const { id } = await steps.create();
    const etag = await etagOf(id);
    const waiting = await wait(id, 'wait=60&until=changed', etag);
    await steps.note(id);
    assert.equal((await waiting.answer).status, 200);
    assert.equal((await (await wait(id, 'wait=60&until=changed', etag)).answer).status, 200);
  });

  test('answers the run as it is when the time is over, and 304 to a client that has this version', async () => {
    const { id } = await steps.create();
    const etag = await etagOf(id);
    for (const until of ['ended', 'started', 'changed']) {
      const [whole, known] = await Promise.all([
        service.send('GET', `/runs/${id}?wait=1&until=${until}`),
        service.send('GET', `/runs/${id}?wait=1&until=${until}`, { headers: { 'If-None-Match': etag } }),
      ]);
      assert.deepEqual([whole.status, whole.body.state, whole.headers.get('ETag')], [200, 'PENDING', etag]);
      assert.deepEqual([known.status, known.text, known.headers.get('ETag')], [304, '', etag]);
    }
  });

  test('answers 304 at once to a client that has the version in which the run ended', async () => {
    const { id } = await steps.create();
    await service.send('POST', `/runs/${id}/cancel`);
    assert.equal((await (await wait(id, 'wait=60', await etagOf(id))).answer).status, 304);
  });

  test('is woken by a change that another process commits', async () => {
    const { id } = await steps.create();
    const waiting = await wait(id, 'wait=60');
    await other.send('POST', `/runs/${id}/cancel`);
    assert.equal(await stateOf(waiting), 'CANCELLED');
  });

  test('is 404 at once for an unknown run, and for one that is removed meanwhile', async () => {
    assert.equal((await service.send('GET', `/runs/${UNKNOWN}?wait=60`)).status, 404);
    assert.equal((await service.send('GET', '/runs/nothing?wait=60')).status, 404);
    const { id } = await steps.create();
    await service.send('POST', `/runs/${id}/cancel`);
    const waiting = await wait(id, 'wait=60&until=changed', undefined);
    const removed = await service.app.get(RunRetention).runOnce(new Date(Date.now() + 2 * 86_400_000));
    assert.ok(removed > 0);
    assert.equal((await waiting.answer).status, 404);
  });

  test('refuses other waits', async () => {
    for (const seconds of ['61', '-1', '1.5']) {
      assertInvalid(await service.send('GET', `/runs/${UNKNOWN}?wait=${seconds}`), [
        'wait must be an integer from 0 to 60',
      ]);
    }
    assertInvalid(await service.send('GET', `/runs/${UNKNOWN}?wait=1&until=running`), [
      'until must be one of ended, started, changed',
    ]);
  });

  test('refuses more waits than a key may have, those of timelines included', async () => {
    const { id } = await steps.create();
    const waiting = await wait(id, 'wait=60');
    const timeline = service.send('GET', `/runs/${id}/events?wait=30`);
    while (service.app.get(HeldRequests).size < 2) await setImmediate();
    const refused = await service.send('GET', `/runs/${id}?wait=60`, { key: KEYS.admin });
    assert.equal(refused.status, 429);
    assert.equal(
      refused.body.detail,
      'Too many streams and waiting polls of runs and timelines of this API key: at most 2 (SERVICE_READERS_PER_KEY)',
    );
    assert.equal((await service.send('GET', `/runs/${id}`)).status, 200);
    await service.send('POST', `/runs/${id}/cancel`);
    await Promise.all([waiting.answer, timeline]);
  });

  test('ends when the service stops, with the run as it is', async () => {
    const stopping = await startTestApp({ database });
    const { id } = await steps.create();
    const waiting = await wait(id, 'wait=60', undefined, stopping);
    await stopping.close();
    assert.equal(await stateOf(waiting), 'PENDING');
  });
});
