import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { issueKey } from '../../support/app/api-keys.js';
import { RunSteps, type Fence } from '../../support/runs/run-steps.js';
import { KEYS, senderTo, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

type Key = 'admin' | 'client' | 'worker' | 'both';

/** Events that a run in execution takes, and the scope that each requires beside admin; none: every scope that may report. */
const EVENTS = [
  { type: 'STARTED', payload: { worker_id: 'w' }, scope: 'worker' },
  { type: 'COMPLETED', scope: 'worker' },
  { type: 'FAILED', scope: 'worker' },
  { type: 'CANCELLED', scope: 'client' },
  { type: 'RETRIED', payload: { force: true }, scope: 'client' },
  { type: 'PROGRESS', msg: 40, scope: null },
  { type: 'NOTE', scope: null },
] as const;

describe('events by scope', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let keys: Readonly<Record<Key, string>>;

  beforeAll(async () => {
    keys = { ...KEYS, both: (await issueKey(service, ['client', 'worker'])).key };
  });

  const poll = (id: string, key: string, query: string): Promise<TestAnswer> =>
    service.send('GET', `/runs/${id}/events${query}`, { key });
  const by = (key: Key): RunSteps => new RunSteps(senderTo(service.url, keys[key]));

  /** The answer to an event of a run in execution, as a request of its own, and the run afterwards. */
  async function report(key: Key, event: (typeof EVENTS)[number], fence: Fence = {}) {
    const { id } = await steps.assigned();
    const untouched = JSON.stringify(await steps.get(id));
    const { scope: _, ...body } = { msg: '', ...event };
    const answer = await by(key).report(id, body, fence);
    return { id, answer, isUnchanged: JSON.stringify(await steps.get(id)) === untouched };
  }

  for (const event of EVENTS) {
    test(`takes ${event.type} from ${event.scope ?? 'every'} key and from admins, and changes nothing for others`, async () => {
      for (const key of ['admin', 'client', 'worker', 'both'] as const) {
        const isAllowed = event.scope === null || ['admin', 'both', event.scope].includes(key);
        const { answer, isUnchanged } = await report(key, event);
        if (isAllowed) bodyOf(answer, 'OpRun');
        else assertError(answer, 403, `API key lacks scope '${event.scope}'`);
        assert.equal(isUnchanged, !isAllowed, `${event.type} by ${key}`);
      }
    });

    test(`judges ${event.type} in a list of a worker's events as if it were sent alone`, async () => {
      for (const key of ['client', 'worker', 'both'] as const) {
        const { id } = await steps.assigned();
        const { scope, ...rest } = { msg: '', ...event };
        const send = senderTo(service.url, keys[key]);
        const body = {
          events: [
            { run_id: id, ...rest },
            { run_id: id, type: 'NOTE', msg: 'after it' },
          ],
        };
        const { body: answer, status } = await send('POST', '/workers/w/events', { body });
        assert.equal(status, 200);
        const isAllowed = scope === null || key === 'both' || key === scope;
        const error = { detail: `API key lacks scope '${scope}'` };
        assert.deepEqual(answer.results[0], isAllowed ? { status: 204 } : { status: 403, error }, key);
        if (!isAllowed) assert.deepEqual(answer.results[1], { status: 204 });
      }
    });
  }

  test('let a worker cancel and retry a run that it holds, if it says which worker and attempt it is', async () => {
    for (const event of EVENTS.filter(({ scope }) => scope === 'client')) {
      bodyOf((await report('worker', event, { worker: 'w', attempt: 1 })).answer, 'OpRun');
      const { id, answer } = await report('worker', event, { worker: 'other', attempt: 1 });
      assertError(answer, 409, `Run '${id}' is not assigned to worker 'other'`);
      for (const fence of [{ worker: 'w' }, { attempt: 1 }]) {
        assertError((await report('worker', event, fence)).answer, 403, "API key lacks scope 'client'");
      }
    }
  });

  test('do not let a worker reopen or cancel a run that nobody holds', async () => {
    const pending = await steps.create();
    const { id } = await steps.inState('COMPLETED');
    const fence = { worker: 'w', attempt: 1 };
    const retried = { type: 'RETRIED', msg: '', payload: { force: true } };
    const cancelled = { type: 'CANCELLED', msg: '' };
    const detail = `Run '${pending.id}' is not assigned to worker 'w'`;
    assertError(await by('worker').report(pending.id, cancelled, fence), 409, detail);
    assertError(
      await by('worker').report(id, retried, fence),
      400,
      'Run is already in terminal state COMPLETED',
    );
  });

  describe('and who sent them', () => {
    test('are told to admins on request: the id of the key, and null for the service', async () => {
      const [client, worker] = [await issueKey(service, ['client']), await issueKey(service, ['worker'])];
      const { id } = await steps.assigned({ retry_policy: { max_attempts: 2 } });
      const fence = { 'X-Worker-Id': 'w', 'X-Run-Attempt': '1' };
      const started = { type: 'STARTED', msg: '', payload: { worker_id: 'w' } };
      const send = (key: string, body: object, headers = {}): Promise<TestAnswer> =>
        service.send('POST', `/runs/${id}/events`, { key, body, headers });
      assert.equal((await send(worker.key, started, fence)).status, 200);
      const listed = { events: [{ run_id: id, attempt: 1, type: 'FAILED', msg: '' }] };
      await service.send('POST', '/workers/w/events', { key: worker.key, body: listed });
      assert.equal((await send(KEYS.client, { type: 'NOTE', msg: '' })).status, 200);
      await service.send('POST', `/runs/${id}/retry`, { key: client.key });
      await service.send('POST', '/runs/batch/retry', { key: client.key, body: { ids: [id] } });
      await service.send('POST', `/runs/${id}/cancel`, { key: client.key });

      const settings = (await service.send('GET', '/whoami', { key: KEYS.client })).body.id;
      const { events } = bodyOf(await poll(id, KEYS.admin, '?include_sender=true'), 'PolledEvents');
      assert.deepEqual(
        events.map(({ type, sender }: { type: string; sender: string | null }) => [type, sender]),
        [
          ['STARTED', worker.id],
          ['FAILED', worker.id],
          ['RETRIED', null],
          ['NOTE', settings],
          ['RETRIED', client.id],
          ['RETRIED', client.id],
          ['CANCELLED', client.id],
        ],
      );
    });

    test('are told to nobody else, and to nobody who does not ask', async () => {
      const { id } = await steps.create();
      await steps.note(id);
      for (const key of [KEYS.client, KEYS.worker]) {
        assertError(await poll(id, key, '?include_sender=true'), 403, "API key lacks scope 'admin'");
        assert.equal((await poll(id, key, '?include_sender=false')).status, 200);
      }
      for (const query of ['', '?include_sender=false']) {
        const { events } = bodyOf(await poll(id, KEYS.admin, query), 'PolledEvents');
        assert.ok(!('sender' in events[0]));
      }
      assert.ok(!JSON.stringify(await steps.get(id)).includes('sender'));
    });
  });
});
