import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { INIT, before, done, exited, lost, of, pod, waiting } from '../../testing/job-views.js';

const started = (seconds: number) => ({ running: { startedAt: before(seconds) } });
const ended = (seconds: number, exitCode = 0) => done(exitCode, { finishedAt: before(seconds) });
const scheduled = (seconds: number) => ({
  conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: before(seconds) }],
});

describe('a pod whose node says nothing of it', () => {
  it('is lost ten minutes after it was given to the node', () => {
    const silent = (seconds: number) =>
      of({ ...pod([]), status: { phase: 'Pending', ...scheduled(seconds) } });
    assert.deepEqual(silent(599), { kind: 'pending', reason: '' });
    assert.deepEqual(silent(600), lost('Its node has said nothing of its pod for 10 minutes'));
  });

  it('is lost when a container of the launcher has not ended for ten minutes', () => {
    const inputs = (seconds: number) => of(pod([started(seconds), INIT, INIT]));
    assert.equal(inputs(599).kind, 'pending');
    assert.deepEqual(
      inputs(600),
      lost("The container 'inputs' of the launcher has not ended for 10 minutes"),
    );
    const outputs = (seconds: number) => of(pod([done(), ended(seconds), started(seconds)]));
    assert.deepEqual(outputs(599), { kind: 'running' });
    assert.deepEqual(
      outputs(600),
      lost("The container 'outputs' of the launcher has not ended for 10 minutes"),
    );
  });

  it('is lost when the outputs are not read ten minutes after the end of the container', () => {
    assert.deepEqual(of(pod([done(), ended(599), INIT])), { kind: 'running' });
    const message = 'Its node has said nothing for 10 minutes after the end of the container';
    assert.deepEqual(of(pod([done(), ended(600), INIT])), lost(message));
  });

  it('has the exit code of its container when the pod is not over ten minutes later', () => {
    assert.deepEqual(of(pod([done(), ended(599, 7), INIT])), { kind: 'running' });
    assert.deepEqual(of(pod([done(), ended(600, 7), INIT])), exited(7));
  });

  it('waits as long as it takes for a program, for the pull of its image, and for an image of the launcher that cannot be pulled', () => {
    const day = 86_400;
    assert.deepEqual(of(pod([ended(day), started(day), INIT])), { kind: 'running' });
    const pulled = pod([ended(day), waiting('PodInitializing'), INIT], { status: scheduled(day) });
    assert.equal(of(pulled).kind, 'pending');
    const unpulled = pod([ended(day), ended(day), waiting('ErrImagePull', 'm')]);
    assert.deepEqual(of(unpulled), { kind: 'running' });
  });
});
