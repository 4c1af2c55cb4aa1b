import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { checkHistory } from '../support/history/check-history.js';
import { IdealService } from '../support/history/ideal-service.js';
import { addHeartbeats, scene } from '../support/history/scene.js';
import { runOf, storyOf, type Story } from '../support/history/spoil.js';

function namesOf({ history, final, rules }: Story): readonly string[] {
  return checkHistory(history, final, rules).map(({ name }) => name);
}

/** What is found when the run of the scene is FAILED after a PATCH to a state. */
function patched(state: 'FAILED' | 'CANCELLED'): readonly string[] {
  const { story, failing } = scene();
  const run = runOf(story, failing);
  run.state = 'FAILED';
  Object.assign(run.attempts.at(-1) ?? {}, { state: 'FAILED' });
  const times = { startedAt: 1, endedAt: 2 };
  const outcome = { kind: 'answered', value: null } as const;
  story.final.audit.push({ runId: failing });
  story.history.push({ kind: 'patch', runId: failing, state, actor: 'admin', ...times, outcome });
  return namesOf(story);
}

describe('the history checker', () => {
  it('finds nothing in a history that keeps every promise', () => {
    const { story } = scene();
    assert.deepEqual(checkHistory(story.history, story.final, story.rules), []);
  });

  it('lets a worker lose a run that it reported too seldom, or did not name', () => {
    const seldom = scene();
    addHeartbeats(seldom.story, seldom.lost, 'answered', 6000);
    assert.deepEqual(namesOf(seldom.story), []);
    const unnamed = scene();
    addHeartbeats(unnamed.story, unnamed.lost, 'answered');
    for (const call of unnamed.story.history) if (call.kind === 'heartbeat') call.running = [];
    assert.deepEqual(namesOf(unnamed.story), []);
    const unheard = scene();
    addHeartbeats(unheard.story, unheard.lost, 'answered');
    const beats = unheard.story.history.filter((call) => call.kind === 'heartbeat');
    for (const call of beats.slice(0, -1)) call.running = [];
    for (const call of beats.slice(-1)) call.outcome = { kind: 'maybe' };
    assert.deepEqual(namesOf(unheard.story), []);
  });

  it('takes a request without an answer for done or not done', () => {
    const done = scene();
    for (const call of done.story.history) {
      if (call.kind !== 'claim' && call.outcome.kind === 'answered') call.outcome = { kind: 'maybe' };
    }
    assert.deepEqual(namesOf(done.story), []);
    const service = new IdealService();
    const run = service.create();
    service.note(run);
    service.cancel(run);
    const story = storyOf(service);
    story.final.runs = [];
    for (const call of story.history) call.outcome = { kind: 'maybe' };
    assert.deepEqual(namesOf(story), []);
  });

  it('lets the service open a run again with the one for which it had been cancelled', () => {
    const service = new IdealService();
    const run = service.create();
    const child = service.create({}, [{ run, when: 'completed' }]);
    service.claim('w1');
    service.report('w1', run, 1, 'FAILED');
    service.retry(run);
    service.claim('w1');
    service.report('w1', run, 2, 'COMPLETED');
    service.claim('w1');
    service.report('w1', child, 2, 'COMPLETED');
    assert.deepEqual(namesOf(storyOf(service)), []);
  });

  it('takes a patched run to be in any state that its patches explain, and in no other', () => {
    assert.deepEqual(patched('FAILED'), []);
    assert.deepEqual(patched('CANCELLED'), ['impossible-state']);
  });
});
