import assert from 'node:assert/strict';
import { addHeartbeats } from './scene.js';
import { entryOf, mirrorAgain, renumber, runOf, swap } from './spoil.js';
import type { Wrong } from './wrong-records.js';

/** Attempts, states and readings that no sequence of requests explains. */
export const WRONG_EXECUTIONS: readonly Wrong[] = [
  [
    'handed-to-two-workers',
    'an attempt was handed to a second worker',
    ({ story, failing }) => {
      const call = story.history.find(({ kind }) => kind === 'claim');
      assert.ok(call?.kind === 'claim' && call.outcome.kind === 'answered');
      assert.deepEqual(call.outcome.value, [{ runId: failing, attempt: 1 }]);
      story.history.push({ ...call, worker: 'w9', key: 'another' });
    },
  ],
  [
    'handed-twice',
    'an attempt was handed to its worker by a second claim',
    ({ story }) => {
      const call = story.history.find(({ kind }) => kind === 'claim');
      assert.ok(call?.kind === 'claim');
      story.history.push({ ...call, key: 'another' });
    },
  ],
  [
    'claim-not-recorded',
    'the service forgot to whom it handed an attempt',
    ({ story, failing }) => {
      const attempt = runOf(story, failing).attempts[1];
      assert.ok(attempt);
      attempt.worker = null;
    },
  ],
  [
    'ineligible-worker',
    'a run was handed to a worker without its tags',
    ({ story, first }) => {
      runOf(story, first).selector.push('eu');
    },
  ],
  [
    'before-start',
    'a run was assigned before its start',
    ({ story, first }) => {
      const run = runOf(story, first);
      const assignedAt = run.attempts[0]?.assignedAt;
      assert.ok(typeof assignedAt === 'number');
      run.startAt = assignedAt + 1;
    },
  ],
  [
    'over-limit',
    'two runs of a key that lets one execute were in execution at once',
    ({ story, first, second }) => {
      const [one, other] = [first, second].map((id) => runOf(story, id).attempts[0]);
      assert.ok(one && other?.assignedAt);
      one.finishedAt = other.assignedAt;
    },
  ],
  [
    'impossible-transition',
    'a failure that the policy does not name was retried',
    ({ story, failing }) => {
      runOf(story, failing).retryOn = ['oom'];
    },
  ],
  [
    'report-by-another-worker',
    'a report was taken from a worker that does not have the attempt',
    ({ story, started }) => {
      const call = story.history.find((each) => each.kind === 'event' && each.mark === started);
      assert.ok(call?.kind === 'event' && call.reporter);
      call.reporter.worker = 'w1';
    },
  ],
  [
    'report-by-another-worker',
    'a report on an earlier attempt was taken for the current one',
    ({ story, started }) => {
      const call = story.history.find((each) => each.kind === 'event' && each.mark === started);
      assert.ok(call?.kind === 'event' && call.reporter);
      call.reporter.attempt = 1;
    },
  ],
  [
    'attempt-hole',
    'an attempt is missing',
    ({ story, failing }) => {
      runOf(story, failing).attempts.shift();
    },
  ],
  [
    'two-live-attempts',
    'an attempt goes on beside its successor',
    ({ story, failing }) => {
      const attempt = runOf(story, failing).attempts[0];
      assert.ok(attempt);
      attempt.state = 'RUNNING';
    },
  ],
  [
    'held-by-two-workers',
    'an attempt was assigned before the one before it had ended',
    ({ story, failing }) => {
      const [first, second] = runOf(story, failing).attempts;
      assert.ok(first?.finishedAt !== null && first && second);
      second.assignedAt = first.finishedAt - 1;
    },
  ],
  [
    'wrong-amount',
    'an attempt after a failure by which its run grows has as much RAM as the one before',
    ({ story, failing }) => {
      const [first, second] = runOf(story, failing).attempts;
      assert.ok(first && second);
      second.ramMb = first.ramMb;
    },
  ],
  [
    'wrong-amount',
    'an attempt has grown for a failure that is none of those by which its run grows',
    ({ story, failing }) => {
      runOf(story, failing).growth?.on.pop();
    },
  ],
  [
    'impossible-transition',
    'something happened to a run that had ended',
    ({ story, started }) => {
      const { run } = entryOf(story, started);
      swap(run.timeline, run.timeline.length - 1, run.timeline.length - 2);
      renumber(run);
      mirrorAgain(story, run);
    },
  ],
  [
    'impossible-state',
    'the state is none that the timeline comes to',
    ({ story, failing }) => {
      const run = runOf(story, failing);
      run.state = 'FAILED';
      Object.assign(run.attempts.at(-1) ?? {}, { state: 'FAILED' });
    },
  ],
  [
    'failures-over-bound',
    'a run was retried by itself after its last retry',
    ({ story, failing }) => {
      runOf(story, failing).maxAttempts = 1;
    },
  ],
  [
    'reclaims-over-bound',
    'a run went on after it had lost too many workers',
    ({ story }) => {
      Object.assign(story.rules, { maxReclaims: 0 });
    },
  ],
  [
    'timeline-hole',
    'an index of a timeline is missing',
    ({ story, failing }) => {
      const last = runOf(story, failing).timeline.at(-1);
      assert.ok(last);
      last.id += 1;
    },
  ],
  [
    'time-went-back',
    'an entry is earlier than the one before it',
    ({ story, failing }) => {
      const run = runOf(story, failing);
      const last = run.timeline.at(-1);
      assert.ok(last);
      last.t = 1;
      mirrorAgain(story, run);
    },
  ],
  [
    'history-rewritten',
    'a reader saw an entry that is another one now',
    ({ story }) => {
      const read = story.history.find(({ kind }) => kind === 'read');
      assert.ok(read?.kind === 'read' && read.outcome.kind === 'answered');
      const [entry] = read.outcome.value;
      assert.ok(entry);
      entry.mark = 'before';
    },
  ],
  [
    'stale-read',
    'a reader did not see what had been acknowledged',
    ({ story }) => {
      const read = story.history.find(({ kind }) => kind === 'read');
      assert.ok(read?.kind === 'read' && read.outcome.kind === 'answered');
      assert.equal(read.outcome.value.pop()?.type, 'NOTE');
    },
  ],
  [
    'stale-read',
    'a reader did not find a run that had been acknowledged',
    ({ story }) => {
      const read = story.history.find(({ kind }) => kind === 'read');
      assert.ok(read);
      read.outcome = { kind: 'refused', status: 404 };
    },
  ],
  [
    'healthy-worker-lost-run',
    'a worker lost a run that it tried to report in time, while the service was away',
    ({ story, lost }) => {
      addHeartbeats(story, lost, 'maybe');
    },
  ],
  [
    'healthy-worker-lost-run',
    'a worker lost a run that it had reported in time',
    ({ story, lost }) => {
      addHeartbeats(story, lost, 'answered');
    },
  ],
  [
    'run-not-ended',
    'a run has not ended',
    ({ story, lost }) => {
      const run = runOf(story, lost);
      run.state = 'PENDING';
      Object.assign(run.attempts.at(-1) ?? {}, { state: 'PENDING', finishedAt: null });
    },
  ],
];
