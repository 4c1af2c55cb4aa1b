import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { eventTypes } from '@longshore/worker/testing/fake-service';
import { LauncherHarness, running } from '../testing/launcher-harness.js';
import type { JobStatus } from './engine.js';

const RUNNING: JobStatus = { kind: 'running' };

describe('a launcher that adopts a job', () => {
  it('reports the reason for waiting when it is another than the newest on the timeline, and only then', async () => {
    const harness = new LauncherHarness();
    const { clock, cluster, service } = harness;
    const run = service.add('run-1');
    const waitFor = async (reason: string): Promise<void> => {
      cluster.set('run-1', { kind: 'pending', reason });
      await clock.pass(60_000);
    };
    const first = await harness.start();
    await harness.untilSubmitted('run-1');
    await waitFor('A');
    await waitFor('B');
    first.kill();
    const second = await harness.start();
    await clock.pass(60_000);
    second.kill();
    await harness.start();
    await waitFor('A');
    const reasons = run.timeline.map(({ payload }) => payload?.['reason']);
    assert.deepEqual(reasons.slice(reasons.indexOf('A')), ['A', 'B', 'A']);
  });

  it('sends no event again that is on the timeline, though the service does not know its key any more', async () => {
    for (const isLogRefused of [false, true]) {
      const harness = new LauncherHarness();
      const { clock, cluster, service } = harness;
      if (isLogRefused)
        service.onCall = ({ what }) =>
          what === 'putLogChunk' ? { kind: 'refused', status: 404, detail: 'no' } : undefined;
      const run = service.add('run-1');
      const notes = ['tick', 'tick', 'a', 'tick'].map((msg) => JSON.stringify({ type: 'NOTE', msg }));
      const first = await harness.start();
      await harness.untilRunning(run);
      cluster.print('run-1', 'begin', ...notes);
      await clock.pass(2_000);
      run.timeline.push({ type: 'OTHER', msg: 'of a client', attempt: 1 });
      cluster.print('run-1', '{"type":"PROGRESS","msg":50,"payload":{"b":1,"a":2}}', 'text');
      await clock.pass(2_000);
      first.kill();
      service.apiKey = 'the next key';
      cluster.print('run-1', ...notes);
      await harness.start();
      await clock.pass(2_000);
      cluster.exit('run-1');
      await harness.untilState(run, 'COMPLETED');
      const expected = ['NOTE', 'NOTE', 'NOTE', 'NOTE', 'OTHER', 'PROGRESS', 'NOTE', 'NOTE', 'NOTE', 'NOTE'];
      assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', ...expected, 'COMPLETED']);
    }
  });

  it('goes on when another process of its worker has reported the start and the end with other times', async () => {
    for (const type of ['STARTED', 'COMPLETED']) {
      const harness = new LauncherHarness();
      const { cluster, service } = harness;
      const run = service.add('run-1');
      service.onCall = (call) => {
        if (call.event?.type !== type) return undefined;
        if (type === 'STARTED') run.state = 'RUNNING';
        return { kind: 'refused', status: 409, detail: 'Idempotency-Key was used with another request body' };
      };
      await harness.start();
      await harness.untilSubmitted('run-1');
      cluster.set('run-1', RUNNING);
      await harness.clock.pass(2_000);
      cluster.exit('run-1');
      await harness.untilEmpty();
      const reported = ['SUBMITTED', 'STARTED', 'COMPLETED'].filter((each) => each !== type);
      assert.deepEqual(eventTypes(run), reported);
    }
  });

  it('reports its end though the service refuses its timeline, or it is too large to be read', async () => {
    const tooLarge = 'the answer is larger than SERVICE_WORKER_MAX_ANSWER_BYTES (65536)';
    for (const answer of [
      { kind: 'refused', status: 404, detail: 'no' },
      { kind: 'unreachable', reason: tooLarge },
    ] as const) {
      const { harness, cluster, service, run, launcher: first } = await running();
      first.kill();
      cluster.print('run-1', '{"type":"NOTE","msg":1}');
      cluster.exit('run-1');
      service.onCall = ({ what }) => (what === 'getTimeline' ? answer : undefined);
      await harness.start();
      await harness.untilState(run, 'COMPLETED');
      assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', 'NOTE', 'COMPLETED']);
    }
  });
});
