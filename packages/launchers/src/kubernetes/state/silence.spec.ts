import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { Pod } from '../api/resources.js';
import { INIT, NOW, done, exited, lost, of, pod, waiting } from '../../testing/job-views.js';
import { QuickSteps } from './silence.js';

const MINUTE_MS = 60_000;
const RUNS = { running: {} };
const SCHEDULED = { conditions: [{ type: 'PodScheduled', status: 'True' }] };
const UNKNOWN: Pod = { ...pod([]), status: { phase: 'Pending', ...SCHEDULED } };

/** What is said of a pod that this process has seen so first, and again later. */
function after(minutes: number, first: Pod, again: Pod = first): string | null {
  const steps = new QuickSteps();
  steps.see(first, NOW);
  steps.see(again, NOW + minutes * MINUTE_MS);
  return steps.silenceOf('pod-1', NOW + minutes * MINUTE_MS);
}

describe('a pod that stays in a step that takes seconds', () => {
  for (const [what, silent, why] of [
    ['its node does not mention it', UNKNOWN, 'Its node has said nothing of its pod for 10 minutes'],
    [
      'the container with the inputs does not end',
      pod([RUNS, INIT, INIT]),
      "The container 'inputs' of the launcher has not ended for 10 minutes",
    ],
    [
      'the container with the outputs does not end',
      pod([done(), done(), RUNS]),
      "The container 'outputs' of the launcher has not ended for 10 minutes",
    ],
    [
      'the outputs are not read after the end of the container',
      pod([done(), done(), INIT]),
      'Its node has said nothing for 10 minutes after the end of the container',
    ],
  ] as const) {
    it(`counts as lost after ten minutes of this process: ${what}`, () => {
      assert.equal(after(9, silent), null);
      assert.equal(after(10, silent), why);
      assert.deepEqual(of(silent, { silence: why }), lost(why));
    });
  }

  it('has the exit code of its container when that is known and another one than 0', () => {
    const ended = pod([done(), done(7), INIT]);
    assert.deepEqual(of(ended), { kind: 'running' });
    assert.deepEqual(of(ended, { silence: after(10, ended) }), exited(7));
  });

  it('has its time anew in each step', () => {
    assert.equal(after(10, UNKNOWN, pod([RUNS, INIT, INIT])), null);
  });

  it('may take as long as it wants to be scheduled, to pull an image and to execute its program', () => {
    const unpulled = pod([done(), done(), waiting('ErrImagePull', 'm')]);
    for (const patient of [
      pod([done(), RUNS, INIT]),
      pod([done(), waiting('PodInitializing'), INIT], { status: SCHEDULED }),
      unpulled,
      { ...pod([]), status: { phase: 'Pending' } },
    ])
      assert.equal(after(1440, patient), null);
    assert.equal(after(10, unpulled, pod([done(), done(), INIT])), null);
  });

  it('is forgotten when it is gone', () => {
    const steps = new QuickSteps();
    for (const forget of [() => steps.forget('pod-1'), () => steps.keepOnly(new Set(['pod-2']))]) {
      steps.see(UNKNOWN, NOW);
      forget();
      assert.equal(steps.silenceOf('pod-1', NOW + 60 * MINUTE_MS), null);
    }
  });
});
