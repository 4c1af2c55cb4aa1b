import assert from 'node:assert/strict';
import type { Violation } from './history.js';
import type { Scene } from './scene.js';
import { entryOf, feedOf, mirrorAgain, renumber, runOf, swap } from './spoil.js';

/** A way to be wrong: what it must be called, what it is, and how to make the scene so. */
export type Wrong = readonly [Violation['name'], string, (scene: Scene) => void];

/** Runs, events and feeds that are not what was acknowledged. */
export const WRONG_RECORDS: readonly Wrong[] = [
  [
    'lost-create',
    'a run that was acknowledged is not there',
    ({ story, lost }) => {
      story.final.runs = story.final.runs.filter(({ id }) => id !== lost);
    },
  ],
  [
    'doubled-create',
    'one creation made two runs',
    ({ story, failing }) => {
      story.final.runs.push({ ...structuredClone(runOf(story, failing)), id: 'twin', topic: null });
    },
  ],
  [
    'doubled-create',
    'one key was answered with two runs',
    ({ story, failing, lost }) => {
      const call = story.history.find(({ kind }) => kind === 'create');
      assert.ok(call?.kind === 'create' && call.outcome.kind === 'answered');
      assert.equal(call.outcome.value.runId, failing);
      story.history.push({ ...call, outcome: { kind: 'answered', value: { runId: lost } } });
    },
  ],
  [
    'unknown-run',
    'there is a run that nobody created',
    ({ story, failing }) => {
      runOf(story, failing).mark = 'stranger';
    },
  ],
  [
    'refused-create-recorded',
    'a creation was refused and made a run',
    ({ story }) => {
      for (const call of story.history) {
        if (call.kind === 'create') call.outcome = { kind: 'refused', status: 400 };
      }
    },
  ],
  [
    'lost-event',
    'an acknowledged event is on no timeline',
    ({ story, note }) => {
      const { run, at } = entryOf(story, note);
      run.timeline.splice(at, 1);
      renumber(run);
      mirrorAgain(story, run);
    },
  ],
  [
    'doubled-event',
    'an event was recorded twice',
    ({ story, note }) => {
      const { run, at, entry } = entryOf(story, note);
      run.timeline.splice(at, 0, { ...entry });
      renumber(run);
      mirrorAgain(story, run);
    },
  ],
  [
    'misplaced-event',
    'an event was recorded as another type',
    ({ story, note }) => {
      const { run, at, entry } = entryOf(story, note);
      run.timeline[at] = { ...entry, type: 'OTHER' };
      mirrorAgain(story, run);
    },
  ],
  [
    'unknown-event',
    'there is an event that nobody sent',
    ({ story, note }) => {
      const { run, at, entry } = entryOf(story, note);
      run.timeline.splice(at, 0, { ...entry, mark: 'stranger' });
      renumber(run);
      mirrorAgain(story, run);
    },
  ],
  [
    'unknown-event',
    'there is an event without a mark that the service does not record by itself',
    ({ story, note }) => {
      const { run, at, entry } = entryOf(story, note);
      run.timeline.splice(at, 0, { ...entry, mark: null });
      renumber(run);
      mirrorAgain(story, run);
    },
  ],
  [
    'refused-event-recorded',
    'an event was refused and recorded',
    ({ story, note }) => {
      const call = story.history.find((each) => each.kind === 'event' && each.mark === note);
      assert.ok(call?.kind === 'event');
      call.outcome = { kind: 'refused', status: 409 };
    },
  ],
  [
    'lost-command',
    'an acknowledged cancel is not recorded',
    ({ story, lost }) => {
      const run = runOf(story, lost);
      assert.equal(run.timeline.pop()?.type, 'CANCELLED');
      mirrorAgain(story, run);
    },
  ],
  [
    'unknown-command',
    'a cancel is recorded that was refused',
    ({ story }) => {
      const call = story.history.find(({ kind }) => kind === 'cancel');
      assert.ok(call?.kind === 'cancel');
      call.outcome = { kind: 'refused', status: 400 };
    },
  ],
  [
    'lost-patch',
    'an acknowledged PATCH is not in the audit log',
    ({ story }) => {
      story.final.audit.pop();
    },
  ],
  [
    'unknown-patch',
    'a PATCH was refused and carried out',
    ({ story }) => {
      const call = story.history.find(({ kind }) => kind === 'patch');
      assert.ok(call?.kind === 'patch');
      call.outcome = { kind: 'refused', status: 400 };
    },
  ],
  [
    'feed-lost-event',
    'an event is on the timeline and not on the feed',
    ({ story }) => {
      feedOf(story, 't').splice(2, 1);
      story.final.tails[0]?.events.splice(2, 1);
    },
  ],
  [
    'feed-doubled-event',
    'an event is on the feed twice',
    ({ story }) => {
      const [event] = feedOf(story, 't');
      assert.ok(event);
      feedOf(story, 't').push({ ...event, cursor: 'twice' });
    },
  ],
  [
    'feed-unknown-event',
    'the feed has an event that no timeline has',
    ({ story }) => {
      const [event] = feedOf(story, 't');
      assert.ok(event);
      feedOf(story, 't').push({ ...event, cursor: 'strange', mark: 'stranger' });
    },
  ],
  [
    'feed-order',
    "a run's events come on the feed in another order",
    ({ story }) => {
      swap(feedOf(story, 't'), 0, 1);
    },
  ],
  [
    'feed-repeat',
    'two events of a feed have one cursor',
    ({ story }) => {
      const [first, second] = feedOf(story, 't');
      assert.ok(first && second);
      second.cursor = first.cursor;
    },
  ],
  [
    'tail-differs',
    'a tailing reader missed an event',
    ({ story }) => {
      story.final.tails[0]?.events.splice(1, 1);
    },
  ],
];
