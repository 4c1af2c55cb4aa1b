import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { checkHistory } from '../support/history/check-history.js';
import { VIOLATIONS, type Violation } from '../support/history/history.js';
import { addHeartbeats, scene, type Scene } from '../support/history/scene.js';
import { callOf, createOf, entryOf, eventOf, feedOf, runOf, settle, swap } from '../support/history/spoil.js';

const found = new Set<Violation['name']>();

/** The checker calls what makes the scene wrong by the name. */
function finds(name: Violation['name'], title: string, spoil: (scene: Scene) => void): void {
  found.add(name);
  it(`finds that ${title}: ${name}`, () => {
    const spoilt = scene();
    spoil(spoilt);
    const { history, final, rules } = spoilt.story;
    const names = checkHistory(history, final, rules).map((violation) => violation.name);
    assert.ok(names.includes(name), `found ${names.join(', ')}`);
  });
}

describe('the history checker', () => {
  finds('lost-create', 'a run that was acknowledged is not there', ({ story, lost }) => {
    story.final.runs = story.final.runs.filter(({ id }) => id !== lost);
  });

  finds('doubled-create', 'one creation made two runs', ({ story, failing }) => {
    story.final.runs.push({ ...structuredClone(runOf(story, failing)), id: 'twin', topic: null });
  });

  finds('doubled-create', 'one key was answered with two runs', ({ story, failing, lost }) => {
    const call = callOf(story, 'create');
    assert.ok(call.outcome.kind === 'answered');
    assert.equal(call.outcome.value.runId, failing);
    story.history.push({ ...call, outcome: { kind: 'answered', value: { runId: lost } } });
  });

  finds('unknown-run', 'there is a run that nobody created', ({ story, failing }) => {
    runOf(story, failing).mark = 'stranger';
  });

  finds('refused-create-recorded', 'a creation was refused and made a run', ({ story }) => {
    for (const call of story.history) {
      if (call.kind === 'create') call.outcome = { kind: 'refused', status: 400 };
    }
  });

  finds('lost-event', 'an acknowledged event is on no timeline', ({ story, note }) => {
    const { run, at } = entryOf(story, note);
    run.timeline.splice(at, 1);
    settle(story, run);
  });

  finds('doubled-event', 'an event was recorded twice', ({ story, note }) => {
    const { run, at, entry } = entryOf(story, note);
    run.timeline.splice(at, 0, { ...entry });
    settle(story, run);
  });

  finds('misplaced-event', 'an event was recorded as another type', ({ story, note }) => {
    const { run, at, entry } = entryOf(story, note);
    run.timeline[at] = { ...entry, type: 'OTHER' };
    settle(story, run);
  });

  finds('unknown-event', 'there is an event that nobody sent', ({ story, note }) => {
    const { run, at, entry } = entryOf(story, note);
    run.timeline.splice(at, 0, { ...entry, mark: 'stranger' });
    settle(story, run);
  });

  finds(
    'unknown-event',
    'there is an event without a mark that the service does not record by itself',
    ({ story, note }) => {
      const { run, at, entry } = entryOf(story, note);
      run.timeline.splice(at, 0, { ...entry, mark: null });
      settle(story, run);
    },
  );

  finds('refused-event-recorded', 'an event was refused and recorded', ({ story, note }) => {
    eventOf(story, note).outcome = { kind: 'refused', status: 409 };
  });

  finds('lost-command', 'an acknowledged cancel is not recorded', ({ story, lost }) => {
    const run = runOf(story, lost);
    assert.equal(run.timeline.pop()?.type, 'CANCELLED');
    settle(story, run);
  });

  finds('unknown-command', 'a cancel is recorded that was refused', ({ story }) => {
    callOf(story, 'cancel').outcome = { kind: 'refused', status: 400 };
  });

  finds('lost-patch', 'an acknowledged PATCH is not in the audit log', ({ story }) => {
    story.final.audit.pop();
  });

  finds('unknown-patch', 'a PATCH was refused and carried out', ({ story }) => {
    callOf(story, 'patch').outcome = { kind: 'refused', status: 400 };
  });

  finds('feed-lost-event', 'an event is on the timeline and not on the feed', ({ story }) => {
    feedOf(story, 't').splice(2, 1);
    story.final.tails[0]?.events.splice(2, 1);
  });

  finds('feed-doubled-event', 'an event is on the feed twice', ({ story }) => {
    const [event] = feedOf(story, 't');
    assert.ok(event);
    feedOf(story, 't').push({ ...event, cursor: 'twice' });
  });

  finds('feed-unknown-event', 'the feed has an event that no timeline has', ({ story }) => {
    const [event] = feedOf(story, 't');
    assert.ok(event);
    feedOf(story, 't').push({ ...event, cursor: 'strange', mark: 'stranger' });
  });

  finds('feed-order', "a run's events come on the feed in another order", ({ story }) => {
    swap(feedOf(story, 't'), 0, 1);
  });

  finds('feed-repeat', 'two events of a feed have one cursor', ({ story }) => {
    const [first, second] = feedOf(story, 't');
    assert.ok(first && second);
    second.cursor = first.cursor;
  });

  finds('tail-differs', 'a tailing reader missed an event', ({ story }) => {
    story.final.tails[0]?.events.splice(1, 1);
  });

  finds('handed-to-two-workers', 'an attempt was handed to a second worker', ({ story, failing }) => {
    const call = callOf(story, 'claim');
    assert.ok(call.outcome.kind === 'answered');
    assert.deepEqual(call.outcome.value, [{ runId: failing, attempt: 1 }]);
    story.history.push({ ...call, worker: 'w9', key: 'another' });
  });

  finds('handed-twice', 'an attempt was handed to its worker by a second claim', ({ story }) => {
    story.history.push({ ...callOf(story, 'claim'), key: 'another' });
  });

  finds('claim-not-recorded', 'the service forgot to whom it handed an attempt', ({ story, failing }) => {
    const attempt = runOf(story, failing).attempts[1];
    assert.ok(attempt);
    attempt.worker = null;
  });

  finds('ineligible-worker', 'a run was handed to a worker without its tags', ({ story, first }) => {
    runOf(story, first).selector.push('eu');
  });

  finds('before-start', 'a run was assigned before its start', ({ story, first }) => {
    const run = runOf(story, first);
    const assignedAt = run.attempts[0]?.assignedAt;
    assert.ok(typeof assignedAt === 'number');
    run.startAt = assignedAt + 1;
  });

  finds(
    'before-dependency',
    'a run was assigned before the run that it waits for had ended',
    ({ story, second, waiting }) => {
      const [attempt] = runOf(story, waiting).attempts;
      const end = runOf(story, second).timeline.at(-1);
      assert.ok(attempt && end);
      attempt.assignedAt = end.t - 1;
    },
  );

  finds(
    'before-dependency',
    'a run was assigned though the run that it waits for ended otherwise than it needs it',
    ({ story, waiting }) => {
      for (const dependency of createOf(story, waiting).dependsOn) dependency.when = 'failed';
    },
  );

  finds(
    'wrongly-cancelled',
    'a run was cancelled for one that ended as it needs it',
    ({ story, cancelled }) => {
      for (const dependency of createOf(story, cancelled).dependsOn) dependency.when = 'ended';
    },
  );

  finds(
    'wrongly-cancelled',
    'a run was cancelled for one that it does not wait for',
    ({ story, cancelled }) => {
      createOf(story, cancelled).dependsOn.pop();
    },
  );

  finds(
    'over-limit',
    'two runs of a key that lets one execute were in execution at once',
    ({ story, first, second }) => {
      const [one, other] = [first, second].map((id) => runOf(story, id).attempts[0]);
      assert.ok(one && other?.assignedAt);
      one.finishedAt = other.assignedAt;
    },
  );

  finds(
    'impossible-transition',
    'a failure that the policy does not name was retried',
    ({ story, failing }) => {
      runOf(story, failing).retryOn = ['oom'];
    },
  );

  finds(
    'report-by-another-worker',
    'a report was taken from a worker that does not have the attempt',
    ({ story, started }) => {
      const call = eventOf(story, started);
      assert.ok(call.reporter);
      call.reporter.worker = 'w1';
    },
  );

  finds(
    'report-by-another-worker',
    'a report on an earlier attempt was taken for the current one',
    ({ story, started }) => {
      const call = eventOf(story, started);
      assert.ok(call.reporter);
      call.reporter.attempt = 1;
    },
  );

  finds('attempt-hole', 'an attempt is missing', ({ story, failing }) => {
    runOf(story, failing).attempts.shift();
  });

  finds('two-live-attempts', 'an attempt goes on beside its successor', ({ story, failing }) => {
    const attempt = runOf(story, failing).attempts[0];
    assert.ok(attempt);
    attempt.state = 'RUNNING';
  });

  finds(
    'held-by-two-workers',
    'an attempt was assigned before the one before it had ended',
    ({ story, failing }) => {
      const [first, second] = runOf(story, failing).attempts;
      assert.ok(first?.finishedAt !== null && first && second);
      second.assignedAt = first.finishedAt - 1;
    },
  );

  finds(
    'wrong-amount',
    'an attempt after a failure by which its run grows has as much RAM as the one before',
    ({ story, failing }) => {
      const [first, second] = runOf(story, failing).attempts;
      assert.ok(first && second);
      second.ramMb = first.ramMb;
    },
  );

  finds(
    'wrong-amount',
    'an attempt has grown for a failure that is none of those by which its run grows',
    ({ story, failing }) => {
      runOf(story, failing).growth?.on.pop();
    },
  );

  finds('impossible-transition', 'something happened to a run that had ended', ({ story, started }) => {
    const { run } = entryOf(story, started);
    swap(run.timeline, run.timeline.length - 1, run.timeline.length - 2);
    settle(story, run);
  });

  finds('impossible-state', 'the state is none that the timeline comes to', ({ story, failing }) => {
    const run = runOf(story, failing);
    run.state = 'FAILED';
    Object.assign(run.attempts.at(-1) ?? {}, { state: 'FAILED' });
  });

  finds('failures-over-bound', 'a run was retried by itself after its last retry', ({ story, failing }) => {
    runOf(story, failing).maxAttempts = 1;
  });

  finds('reclaims-over-bound', 'a run went on after it had lost too many workers', ({ story }) => {
    Object.assign(story.rules, { maxReclaims: 0 });
  });

  finds('timeline-hole', 'an index of a timeline is missing', ({ story, failing }) => {
    const last = runOf(story, failing).timeline.at(-1);
    assert.ok(last);
    last.id += 1;
  });

  finds('time-went-back', 'an entry is earlier than the one before it', ({ story, failing }) => {
    const run = runOf(story, failing);
    const last = run.timeline.at(-1);
    assert.ok(last);
    last.t = 1;
    settle(story, run);
  });

  finds('history-rewritten', 'a reader saw an entry that is another one now', ({ story }) => {
    const read = callOf(story, 'read');
    assert.ok(read.outcome.kind === 'answered');
    const [entry] = read.outcome.value;
    assert.ok(entry);
    entry.mark = 'before';
  });

  finds('stale-read', 'a reader did not see what had been acknowledged', ({ story }) => {
    const read = callOf(story, 'read');
    assert.ok(read.outcome.kind === 'answered');
    assert.equal(read.outcome.value.pop()?.type, 'NOTE');
  });

  finds('stale-read', 'a reader did not find a run that had been acknowledged', ({ story }) => {
    callOf(story, 'read').outcome = { kind: 'refused', status: 404 };
  });

  finds(
    'healthy-worker-lost-run',
    'a worker lost a run that it tried to report in time, while the service was away',
    ({ story, lost }) => {
      addHeartbeats(story, lost, 'maybe');
    },
  );

  finds('healthy-worker-lost-run', 'a worker lost a run that it had reported in time', ({ story, lost }) => {
    addHeartbeats(story, lost, 'answered');
  });

  finds('run-not-ended', 'a run has not ended', ({ story, lost }) => {
    const run = runOf(story, lost);
    run.state = 'PENDING';
    Object.assign(run.attempts.at(-1) ?? {}, { state: 'PENDING', finishedAt: null });
  });

  it('can find everything that it has a name for', () => {
    assert.deepEqual([...found].toSorted(), [...VIOLATIONS].toSorted());
  });
});
