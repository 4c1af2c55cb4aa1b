import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { Pod } from '../api/resources.js';
import {
  container,
  done,
  exited,
  failed,
  lost,
  NOW,
  of,
  type State,
  waiting,
} from '../../testing/job-views.js';
import { QuickSteps } from './silence.js';

const RUNS: State = { running: {} };
const STORING = { kind: 'running', hasEnded: true };

/** A pod of a run that leaves files: its program is beside the container that stores them. */
function pod(files: State, run: State, outputs: State, status: Pod['status'] = {}): Pod {
  const image = 'img:1';
  return {
    metadata: { uid: 'pod-1' },
    spec: {
      initContainers: [
        { name: 'inputs', image },
        { name: 'files', image },
      ],
      containers: [
        { name: 'run', image },
        { name: 'outputs', image },
      ],
    },
    status: {
      phase: 'Running',
      initContainerStatuses: [container('inputs', done()), container('files', files)],
      containerStatuses: [container('outputs', outputs), container('run', run)],
      ...status,
    },
  };
}

const end = (exitCode: number) =>
  of(pod(done(exitCode, { message: 'why', reason: 'Error' }), waiting('PodInitializing'), undefined, failed));

const why = (one: Pod): string | null => {
  const steps = new QuickSteps();
  steps.see(one, NOW);
  return steps.silenceOf('pod-1', NOW + 3_600_000);
};

describe('the status of a job that gets and leaves files', () => {
  it('fails as the run does when no machine could fetch its files, and else as the cluster does', () => {
    assert.deepEqual(end(3), { kind: 'failed', cause: 'error', message: 'why' });
    assert.deepEqual(
      end(1),
      lost("The container 'files' of the launcher ended with exit code 1 (Error: why)"),
    );
  });

  for (const [how, state, exit] of [
    ['with success', done(0), exited(0)],
    ['with a failure', done(7), exited(7)],
    ['as its memory was used up', done(137, { reason: 'OOMKilled' }), exited(137, true)],
  ] as const) {
    it(`is that its program has ended, until its files are stored, when it ended ${how}`, () => {
      assert.deepEqual(of(pod(done(), RUNS, RUNS)), { kind: 'running' });
      assert.deepEqual(of(pod(done(), state, RUNS)), STORING);
      const phase = exit.exitCode === 0 ? 'Succeeded' : 'Failed';
      assert.deepEqual(of(pod(done(), state, done(), { phase })), exit);
    });
  }

  it('is lost with the container that stores its files, unless the program has failed', () => {
    const broken = done(1, { reason: 'OOMKilled' });
    assert.deepEqual(
      of(pod(done(), done(), broken, failed)),
      lost("The container 'outputs' of the launcher ended with exit code 1 (OOMKilled)"),
    );
    assert.deepEqual(of(pod(done(), done(2), broken, failed)), exited(2));
  });

  it('is lost when the pod is deleted while files are stored', () => {
    const deleted = pod(done(), done(), RUNS);
    const metadata = { ...deleted.metadata, deletionTimestamp: new Date(NOW).toISOString() };
    assert.deepEqual(of({ ...deleted, metadata }), lost('Its pod was deleted'));
  });

  it('may fetch and store files for as long as they move, while a node that does not begin is lost', () => {
    assert.equal(why(pod(RUNS, waiting('PodInitializing'), waiting('PodInitializing'))), null);
    assert.equal(why(pod(done(), RUNS, RUNS)), null);
    assert.equal(why(pod(done(), done(), RUNS)), null);
    assert.match(why(pod(done(), done(), waiting('ContainerCreating'))) ?? '', /^Its node has said nothing/);
  });
});
