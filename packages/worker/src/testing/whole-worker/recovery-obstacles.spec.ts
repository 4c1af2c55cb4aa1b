import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { containerSpec } from '../container-spec.js';
import type { FakeContainer } from '../fake-runtime.js';
import type { FakeRun } from '../fake-run.js';
import { DOWN } from '../fake-service.js';
import { makeHarness, type WorkerHarness } from '../worker-harness.js';

interface Left {
  readonly harness: WorkerHarness;
  readonly run: FakeRun;
  readonly container: FakeContainer;
}

/** A worker whose earlier process has left a container. */
function leftRun(state: FakeRun['state']): Left {
  const harness = makeHarness({ isSuccessor: true });
  const run = harness.service.add('run-1', { state, workerId: 'rack/7:a' });
  const container = harness.runtime.leave({ ...containerSpec('example/image:1'), runId: run.id, attempt: 1 });
  return { harness, run, container };
}

/** What the newest heartbeat says of claims. */
const told = ({ service }: WorkerHarness) => service.callsOf('heartbeat').at(-1)?.report?.notClaiming;

async function untilClaims(harness: WorkerHarness): Promise<void> {
  const { clock, service } = harness;
  await clock.until('a claim', () => service.callsOf('claim').length > 0, 2_000);
  await clock.until('no reason is told', () => told(harness)?.length === 0, 20);
}

describe('heartbeats of a restarted worker say why it claims nothing', () => {
  test('while the service refuses to show the run of a container, which goes on', async () => {
    const { harness, run, container } = leftRun('RUNNING');
    const { service, log } = harness;
    service.onCall = ({ what }) =>
      what === 'getRun' ? { kind: 'refused', status: 406, detail: 'a proxy refuses this page' } : undefined;
    await harness.start();
    await harness.clock.pass(60_000);
    const message =
      'the service does not tell whether to go on with containers of an earlier process: GET /runs/run-1 gets 406 a proxy refuses this page';
    assert.deepEqual(told(harness), [{ reason: 'recovering', message }]);
    assert.deepEqual([container.removed, service.callsOf('claim')], [false, []]);
    assert.equal(log.filter((line) => line.includes('no claims until the service shows')).length, 1);
    service.onCall = () => undefined;
    await untilClaims(harness);
    container.end(0);
    await harness.untilState(run, 'COMPLETED');
  });

  test('while a container of a lost attempt cannot be removed, without words of the engine', async () => {
    const { harness } = leftRun('CANCELLED');
    const { service, runtime } = harness;
    runtime.onRemoveLeftovers = () => Promise.reject(new Error('/var/lib/secret-path is busy'));
    await harness.start();
    await harness.clock.pass(60_000);
    const message = 'could not remove containers of a previous process';
    assert.deepEqual([told(harness), service.callsOf('claim')], [[{ reason: 'recovering', message }], []]);
    runtime.onRemoveLeftovers = () => Promise.resolve();
    await untilClaims(harness);
  });

  test('while it asks which runs it holds, a few times', async () => {
    const harness = makeHarness({ isSuccessor: true });
    const { service } = harness;
    service.onCall = ({ what }) => (what === 'listHeld' ? DOWN : undefined);
    await harness.start();
    await harness.clock.pass(10_000);
    const message = 'could not read which runs this worker holds';
    assert.deepEqual([told(harness), service.callsOf('claim')], [[{ reason: 'recovering', message }], []]);
    await untilClaims(harness);
  });
});
