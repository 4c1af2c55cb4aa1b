import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'vitest';
import { map } from 'rxjs';
import type { CommittedEvent } from '../../../src/runs/events/committed-event.js';
import { RunEvents } from '../../../src/runs/run-events.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { until } from '../../support/service-process.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** An application, its run steps, and the events that a subscriber of it has got. */
interface Scene {
  readonly app: TestApp;
  readonly steps: RunSteps;
  readonly events: RunEvents;
  readonly published: CommittedEvent[];
}

const keyOf = ({ run_id, index }: CommittedEvent): string => `${run_id} ${String(index).padStart(9, '0')}`;

const sorted = (events: readonly CommittedEvent[]): CommittedEvent[] =>
  events.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));

function fail(): never {
  throw new Error('broken subscriber');
}

describe('RunEvents.committed$', () => {
  const database = useTestDatabase();
  const apps: TestApp[] = [];

  afterEach(() => Promise.all(apps.splice(0).map((app) => app.close())));

  async function start(): Promise<Scene> {
    const app = await startTestApp({ database });
    apps.push(app);
    const events = app.app.get(RunEvents);
    const published: CommittedEvent[] = [];
    events.committed$.subscribe((event) => void published.push(event));
    return { app, steps: new RunSteps(app.send), events, published };
  }

  it('shows each of two processes what it committed itself, before the caller has its answer, as read shows both', async () => {
    const [one, other] = [await start(), await start()];
    const { id } = await one.steps.running(
      { retry_policy: { max_attempts: 2 }, event_delivery: { topic: 'topic' } },
      'w1',
    );
    await one.steps.event(id, 'FAILED', { error_message: 'lost' });
    assert.deepEqual(
      one.published.map(({ run_id, index, attempt, type, state, topic, worker_id }) => [
        run_id,
        index,
        attempt,
        type,
        state,
        topic,
        worker_id,
      ]),
      [
        [id, 0, 1, 'STARTED', 'RUNNING', 'topic', 'w1'],
        [id, 1, 1, 'FAILED', 'PENDING', 'topic', 'w1'],
        [id, 2, 1, 'RETRIED', 'PENDING', 'topic', 'w1'],
      ],
    );
    assert.deepEqual(one.published[1]?.payload, { error_message: 'lost' });
    assert.equal(other.published.length, 0);
    await other.steps.heartbeat('w2');
    await other.steps.claimUntil(id, 'w2');
    await other.steps.event(id, 'STARTED', { worker_id: 'w2' });
    await other.steps.event(id, 'PROGRESS', undefined, 40);
    const second = await other.steps.create();
    await other.app.send('POST', `/runs/${second.id}/cancel`);
    assert.deepEqual(
      other.published.map(({ index, attempt, type, msg }) => [index, attempt, type, msg]),
      [
        [3, 2, 'STARTED', ''],
        [4, 2, 'PROGRESS', 40],
        [0, 1, 'CANCELLED', 'Cancelled by user'],
      ],
    );
    assert.equal(one.published.length, 3);
    // Transactions of other databases of the cluster may hold readers back.
    await until(async () => (await one.events.read(null, 500)).events.length === 6, 'all events');
    const { events } = await other.events.read(null, 500);
    assert.deepEqual(sorted(events), sorted([...one.published, ...other.published]));
  });

  it('goes on, as the service does, when a subscriber throws, and logs it', async () => {
    const { app, steps, events, published } = await start();
    let called = 0;
    events.committed$.subscribe(() => {
      called += 1;
      fail();
    });
    events.committed$.pipe(map(fail)).subscribe();
    const { id } = await steps.create();
    await steps.note(id);
    await steps.note(id);
    assert.equal(published.length, 2);
    assert.equal(called, 2);
    const logged = () => app.logged.filter(({ stack }) => String(stack).includes('broken subscriber'));
    await until(() => logged().length === 3, 'the log of three failures');
    for (const line of logged()) assert.equal(line['message'] ?? line['msg'], 'An rxjs subscriber failed');
  });

  it('publishes nothing that was refused, and completes when the application closes', async () => {
    const { app, steps, events, published } = await start();
    let isComplete = false;
    events.committed$.subscribe({ complete: () => (isComplete = true) });
    const { id } = await steps.create();
    assert.equal((await steps.report(id, { type: 'COMPLETED', msg: '' }, { worker: 'nobody' })).status, 409);
    assert.deepEqual(published, []);
    apps.splice(0);
    await app.close();
    assert.ok(isComplete);
  });
});
