import assert from 'node:assert/strict';
import { describe, test, vi } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { HeldRequests } from '../../../src/common/http/server/held-requests.js';
import { HeldRunRepository } from '../../../src/runs/storage/held-run.repository.js';
import { beforeTimeOut } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const op = (id: string, attempt = 1) => ({ id, image: 'i', inputs: {}, constraints: {}, attempt });

describe('held heartbeats', () => {
  const service = useTestApp({ env: { SERVICE_WAITING_CLAIMS_PER_KEY: '1' } });
  const steps = new RunSteps(service.send);

  const beat = async (worker: string, ops: readonly object[], wait: number) => {
    const answer = await steps.sendHeartbeat(worker, { running_ops: ops }, `?wait=${wait}`);
    assert.equal(answer.status, 200, answer.text);
    return { lost: answer.body.lost_ops };
  };

  /** Begins a heartbeat that is held when this returns. */
  const hold = async (worker: string, ops: readonly object[], wait: number) => {
    const told = beat(worker, ops, wait);
    told.catch(() => undefined);
    while (service.app.get(HeldRequests).size === 0) await sleep(5);
    return { told };
  };

  const refusals = async (): Promise<string | undefined> => {
    const { text } = await service.send('GET', '/metrics');
    return /^longshore_refused_total\{limit="SERVICE_WAITING_CLAIMS_PER_KEY"[^}]*\} (\d+)$/m.exec(text)?.[1];
  };

  test('beyond the quota are recorded and answered at once, which is no refusal', async () => {
    const { told } = await hold('first', [], 30);
    // The first is still held when the second is answered, which asks to be held as long.
    const { lost } = await Promise.race([
      beat('second', [], 30),
      told.then(() => assert.fail('the first ended')),
    ]);
    assert.deepEqual(lost, []);
    const { body } = await service.send('GET', '/workers');
    assert.deepEqual(
      body.map(({ id, is_active }: { id: string; is_active: boolean }) => [id, is_active]),
      [
        ['first', true],
        ['second', true],
      ],
    );
    const { text } = await service.send('GET', '/metrics');
    assert.match(text, /^longshore_waiting_heartbeats 1$/m);
    assert.equal(await refusals(), '0');
    await beat('first', [], 0);
    await told;
    await (
      await hold('second', [], 1)
    ).told;
  });

  test('end with the next heartbeat of their worker, which takes their place', async () => {
    const run = await steps.running({}, 'one');
    const { told } = await hold('one', [op(run.id)], 30);
    let isHeld = true;
    const next = beat('one', [op(run.id)], 30).finally(() => (isHeld = false));
    await beforeTimeOut(service, told);
    await service.send('GET', '/workers');
    assert.ok(isHeld, 'the next one is held');
    await beat('one', [op(run.id)], 0);
    await beforeTimeOut(service, next);
  });

  test('have no `lost_ops` in the answer when the database does not tell', async () => {
    const run = await steps.running({}, 'blind');
    const look = vi
      .spyOn(service.app.get(HeldRunRepository), 'findLost')
      .mockImplementation(() => Promise.reject(new Error('connection lost')));
    for (const query of ['', '?wait=1']) {
      const answer = await steps.sendHeartbeat('blind', { running_ops: [op(run.id)] }, query);
      assert.equal(answer.status, 200);
      assert.deepEqual([answer.body.id, 'lost_ops' in answer.body], ['blind', false]);
      const without = await steps.sendHeartbeat('blind', { running_ops: [] }, query);
      assert.deepEqual(without.body.lost_ops, [], 'a worker without runs has lost none');
    }
    assert.ok(look.mock.calls.length >= 3);
    look.mockRestore();
    await service.send('POST', `/runs/${run.id}/cancel`);
    assert.equal((await beat('blind', [op(run.id)], 1)).lost.length, 1);
  });

  test('look once for a run that they name again and again', async () => {
    const run = await steps.running({}, 'loud');
    const look = vi.spyOn(service.app.get(HeldRunRepository), 'findLost');
    await service.send('POST', `/runs/${run.id}/cancel`);
    const { lost } = await beat(
      'loud',
      Array.from({ length: 1_000 }, () => op(run.id)),
      1,
    );
    assert.equal(lost.length, 1);
    assert.deepEqual(
      look.mock.calls.map(([, reports]) => reports.flat().length),
      [1],
    );
  });
});
