import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { eventTypes, type Fault } from '@longshore/worker/testing/fake-service';
import { LauncherHarness } from '../testing/launcher-harness.js';
import type { JobStatus } from './engine.js';

const WAITING: JobStatus = { kind: 'pending', reason: 'Unschedulable' };
const RUNNING: JobStatus = { kind: 'running' };
const SUCCESS: JobStatus = { kind: 'exited', exitCode: 0, outOfMemory: false };

describe('JobSweep', () => {
  it('adopts a job that another process of this worker submits just before its end, before the service reclaims the run', async () => {
    const harness = new LauncherHarness();
    const { clock, service, cluster } = harness;
    service.workerTimeoutSeconds = 30;
    const first = await harness.start();
    let fault: Fault = { kind: 'unreachable', reason: 'down' };
    service.onCall = ({ what }) => (what === 'getRun' ? fault : undefined);
    const run = service.add('run-1');
    await clock.until('the run is claimed', () => run.state === 'ASSIGNED', 20);
    const claimedAtMs = clock.nowMs();
    await harness.start();
    fault = undefined;
    await harness.end(first);
    assert.deepEqual(cluster.submitted, ['run-1/1']);
    await clock.pass(claimedAtMs + 30_000 - clock.nowMs());
    assert.deepEqual(harness.listed(), ['run-1']);
    cluster.exit('run-1');
    await harness.untilState(run, 'COMPLETED');
    assert.deepEqual(eventTypes(run), ['SUBMITTED', 'STARTED', 'COMPLETED']);
  });

  it('asks the service about a job of this worker only each minute once it has answered', async () => {
    const scene = new LauncherHarness();
    scene.launch();
    await scene.clock.pass(1_000);
    scene.addJob('run-1', RUNNING);
    await scene.clock.pass(50_000);
    assert.equal(scene.service.callsOf('getRun').length, 1);
    await scene.clock.pass(120_000);
    assert.equal(scene.service.callsOf('getRun').length, 3);
  });

  it('removes a job that does not run and whose run the service has deleted, and lets one that runs go on', async () => {
    const scene = new LauncherHarness();
    scene.addJob('run-1', SUCCESS);
    scene.addJob('run-2', RUNNING);
    scene.addJob('run-3', WAITING);
    scene.addJob('run-4', WAITING, { workerId: 'other' });
    scene.launch();
    await scene.clock.pass(130_000);
    assert.deepEqual(scene.cluster.removals, ['run-1/1', 'run-3/1']);
  });

  it('removes nothing because of a 404 of another server', async () => {
    const scene = new LauncherHarness();
    scene.addJob('run-1', SUCCESS);
    scene.addJob('run-2', WAITING);
    scene.service.onCall = ({ what }) =>
      what === 'getRun' ? { kind: 'refused', status: 404, detail: 'HTTP 404' } : undefined;
    scene.launch();
    await scene.clock.pass(130_000);
    assert.deepEqual(scene.cluster.removals, []);
  });

  it('removes nothing with a key of other workers, for which the service hides the runs', async () => {
    const scene = new LauncherHarness();
    scene.addJob('run-1', SUCCESS);
    const refused: Fault = { kind: 'refused', status: 403, detail: 'API key is not bound to worker' };
    scene.service.key = { scopes: ['worker'], workerIds: ['another-*'] };
    scene.service.onCall = ({ what }) => (what === 'heartbeat' ? refused : undefined);
    scene.launch();
    await scene.clock.pass(130_000);
    assert.deepEqual(scene.cluster.removals, []);
  });
});
