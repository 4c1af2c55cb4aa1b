import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import { checkHistory } from '../support/history/check-history.js';
import { IdealService, type Options } from '../support/history/ideal-service.js';
import { mirrorAgain, renumber, storyOf, swap, type Story } from '../support/history/spoil.js';

type Step = readonly [kind: number, which: number, hears: boolean];

const steps: fc.Arbitrary<Step[]> = fc.array(fc.tuple(fc.nat(99), fc.nat(999), fc.boolean()), {
  minLength: 20,
  maxLength: 80,
});

const WORKERS = ['w1', 'w2', 'w3'] as const;

/** Options of a run, by a number. */
function optionsOf(which: number, now: number): Options {
  return {
    ...(which % 2 === 0 && { concurrency: { key: `k${which % 3}`, limit: 1 + (which % 3) } }),
    ...(which % 5 === 0 && { selector: ['gpu'] }),
    ...(which % 7 === 0 && { startAt: now + 3_000 }),
    ...(which % 11 === 0 && { retryOn: ['exit'] }),
  };
}

/** A service after so many random requests, all runs ended. */
function play(given: readonly Step[]): IdealService {
  const service = new IdealService();
  service.note(service.create({ topic: 'topic-0' }));
  for (const [kind, which, heard] of given) {
    const hears = heard ? 'hears' : 'does not hear';
    const run = service.runs[which % service.runs.length];
    assert.ok(run);
    const holder = run.attempts.at(-1)?.worker ?? WORKERS[0];
    if (kind < 15) {
      const options = optionsOf(which, service.now);
      service.create({ topic: `topic-${which % 2}`, maxAttempts: 1 + (which % 3), ...options, hears });
    } else if (kind < 20) service.create({ hears });
    else if (kind < 45) service.claim(WORKERS[which % 3] ?? 'w1', hears, which % 3 === 0 ? ['gpu'] : []);
    else if (kind < 55) service.report(holder, run.id, run.attempt, 'STARTED', hears);
    else if (kind < 60) service.report(holder, run.id, run.attempt, 'COMPLETED', hears);
    else if (kind < 70) service.report(holder, run.id, run.attempt, 'FAILED', hears);
    else if (kind < 75) service.report('w9', run.id, run.attempt, 'COMPLETED', hears);
    else if (kind < 85) service.note(run.id, hears);
    else if (kind < 87) service.cancel(run.id, hears);
    else if (kind < 90) service.retry(run.id, hears);
    else if (kind < 93) service.read(run.id);
    else if (kind < 96) service.patch(run.id, hears);
    else if (kind < 97) service.heartbeat(holder, [run.id], hears);
    else if (run.state === 'RUNNING') {
      service.pass(11_000);
      service.reclaim(run.id);
    }
  }
  for (const { id } of service.runs) service.cancel(id);
  return service;
}

/** Spoils the story somewhere; false when it has no such place. */
type Mutation = (story: Story, which: number) => boolean;

function pick<T>(items: readonly T[], which: number): T | undefined {
  return items[which % Math.max(1, items.length)];
}

function heardMarks({ history }: Story): Set<string> {
  return new Set(
    history.flatMap((call) => (call.kind === 'event' && call.outcome.kind === 'answered' ? [call.mark] : [])),
  );
}

/** Acknowledged entries, with their runs and places. */
function heardEntries(story: Story): { run: Story['final']['runs'][number]; at: number }[] {
  const heard = heardMarks(story);
  return story.final.runs.flatMap((run) =>
    run.timeline.flatMap(({ mark }, at) => (heard.has(mark ?? '') ? [{ run, at }] : [])),
  );
}

/** Ids of runs whose first attempt a worker heard of. */
function handedRuns({ history }: Story): Set<string> {
  return new Set(
    history.flatMap((call) =>
      call.kind === 'claim' && call.outcome.kind === 'answered'
        ? call.outcome.value.flatMap(({ runId, attempt }) => (attempt === 1 ? [runId] : []))
        : [],
    ),
  );
}

const MUTATIONS: Readonly<Record<string, Mutation>> = {
  'drops an acknowledged event': (story, which) => {
    const place = pick(heardEntries(story), which);
    if (!place) return false;
    place.run.timeline.splice(place.at, 1);
    renumber(place.run);
    mirrorAgain(story, place.run);
    return true;
  },
  'repeats an event': (story, which) => {
    const place = pick(heardEntries(story), which);
    const entry = place?.run.timeline[place.at];
    if (!place || !entry) return false;
    place.run.timeline.splice(place.at, 0, { ...entry });
    renumber(place.run);
    mirrorAgain(story, place.run);
    return true;
  },
  'drops an event from a feed': (story, which) => {
    const feed = pick([...story.final.feeds.values()], which);
    return feed !== undefined && feed.splice(which % Math.max(1, feed.length), 1).length > 0;
  },
  'repeats an event on a feed': (story, which) => {
    const feed = pick([...story.final.feeds.values()], which);
    const event = pick(feed ?? [], which);
    if (!feed || !event) return false;
    feed.push({ ...event, cursor: 'repeated' });
    return true;
  },
  'swaps two events on a feed': (story, which) => {
    const feed = pick(
      [...story.final.feeds.values()].filter(({ length }) => length > 1),
      which,
    );
    if (!feed) return false;
    swap(feed, which % (feed.length - 1), (which % (feed.length - 1)) + 1);
    return true;
  },
  'keeps an event from a tailing reader': (story, which) => {
    const tail = pick(story.final.tails, which);
    return tail !== undefined && tail.events.splice(which % Math.max(1, tail.events.length), 1).length > 0;
  },
  'loses an acknowledged run': (story, which) => {
    const heard = story.history.flatMap((call) =>
      call.kind === 'create' && call.outcome.kind === 'answered' ? [call.outcome.value.runId] : [],
    );
    const id = pick(heard, which);
    story.final.runs = story.final.runs.filter((run) => run.id !== id);
    return id !== undefined;
  },
  'creates a run twice': (story, which) => {
    const run = pick(story.final.runs, which);
    if (!run) return false;
    story.final.runs.push({ ...structuredClone(run), id: 'twin', topic: null });
    return true;
  },
  'assigns a run before its start': (story, which) => {
    const runs = story.final.runs.filter(({ attempts: [first] }) => first?.assignedAt);
    const run = pick(runs, which);
    if (!run?.attempts[0]?.assignedAt) return false;
    run.startAt = run.attempts[0].assignedAt + 1;
    return true;
  },
  'hands a run to a worker without its tags': (story, which) => {
    const handed = handedRuns(story);
    const run = pick(
      story.final.runs.filter(({ id }) => handed.has(id)),
      which,
    );
    run?.selector.push('tag of no worker');
    return run !== undefined;
  },
  'lets two runs of a key execute at once': (story, which) => {
    const handed = handedRuns(story);
    const later = pick(
      story.final.runs.filter(({ id, attempts }) => handed.has(id) && attempts[0]?.finishedAt),
      which,
    );
    const earlier = story.final.runs.find(
      ({ id, attempts }) =>
        handed.has(id) && (attempts[0]?.assignedAt ?? Infinity) < (later?.attempts[0]?.assignedAt ?? 0),
    );
    if (!earlier?.attempts[0] || !later?.attempts[0]) return false;
    for (const run of [earlier, later]) run.concurrency = { key: 'mutual exclusion', limit: 1 };
    earlier.attempts[0].finishedAt = later.attempts[0].finishedAt;
    return true;
  },
  'retries a failure that the policy does not name': (story, which) => {
    const retried = story.final.runs.filter(({ timeline }) => timeline.some(({ force }) => force === false));
    const run = pick(retried, which);
    if (run) run.retryOn = ['oom'];
    return run !== undefined;
  },
  'hands an attempt to another worker as well': (story, which) => {
    const claims = story.history.flatMap((call) =>
      call.kind === 'claim' && call.outcome.kind === 'answered' && call.outcome.value.length > 0
        ? [call]
        : [],
    );
    const call = pick(claims, which);
    if (!call) return false;
    story.history.push({ ...structuredClone(call), worker: 'w8', key: 'other' });
    return true;
  },
  'reassigns an attempt that was handed out': (story, which) => {
    const handed = story.history.flatMap((call) =>
      call.kind === 'claim' && call.outcome.kind === 'answered' ? call.outcome.value : [],
    );
    const { runId, attempt } = pick(handed, which) ?? {};
    const run = story.final.runs.find(({ id }) => id === runId);
    const record = run?.attempts.find((each) => each.attempt === attempt);
    if (!record) return false;
    record.worker = 'w8';
    return true;
  },
  'refuses what it recorded': (story, which) => {
    const marks = heardMarks(story);
    const mark = pick([...marks], which);
    for (const call of story.history) {
      if (call.kind === 'event' && call.mark === mark) call.outcome = { kind: 'refused', status: 409 };
    }
    return mark !== undefined;
  },
  'says another state': (story, which) => {
    const run = pick(story.final.runs, which);
    if (!run) return false;
    run.state = run.state === 'CANCELLED' ? 'COMPLETED' : 'CANCELLED';
    return true;
  },
  'forgets what its audit log had': ({ history, final }, which) => {
    const heard = history.flatMap((call) =>
      call.kind === 'patch' && call.outcome.kind === 'answered' ? [call.runId] : [],
    );
    const id = pick(heard, which);
    final.audit = final.audit.filter(({ runId }) => runId !== id);
    return id !== undefined;
  },
  'leaves an index out': (story, which) => {
    const run = pick(
      story.final.runs.filter(({ timeline }) => timeline.length > 0),
      which,
    );
    const entry = run?.timeline.at(-1);
    if (!entry) return false;
    entry.id += 1;
    return true;
  },
  'drops an attempt': (story, which) => {
    const run = pick(
      story.final.runs.filter(({ attempts }) => attempts.length > 1),
      which,
    );
    return run !== undefined && run.attempts.splice(which % run.attempts.length, 1).length > 0;
  },
  'ends an attempt after its successor began': (story, which) => {
    const run = pick(
      story.final.runs.filter(({ attempts }) => typeof attempts[1]?.assignedAt === 'number'),
      which,
    );
    const [first, second] = run?.attempts ?? [];
    if (!first || typeof second?.assignedAt !== 'number') return false;
    first.finishedAt = second.assignedAt + 1;
    return true;
  },
  'forgets an acknowledged cancel': (story, which) => {
    const run = pick(
      story.final.runs.filter(({ timeline }) => timeline.at(-1)?.msg === 'Cancelled by user'),
      which,
    );
    const heard = story.history.some(
      (call) => call.kind === 'cancel' && call.runId === run?.id && call.outcome.kind === 'answered',
    );
    if (!run || !heard) return false;
    run.timeline.pop();
    mirrorAgain(story, run);
    return true;
  },
};

describe('the history checker on random histories', () => {
  it('finds nothing in any that keeps every promise', () => {
    fc.assert(
      fc.property(steps, (given) => {
        const { history, final, rules } = storyOf(play(given));
        assert.deepEqual(checkHistory(history, final, rules), []);
      }),
      { numRuns: 200 },
    );
  });

  for (const [title, spoil] of Object.entries(MUTATIONS)) {
    it(`finds it when the service ${title}`, () => {
      let applied = 0;
      fc.assert(
        fc.property(steps, fc.nat(9999), (given, which) => {
          const story = storyOf(play(given));
          if (!spoil(story, which)) return;
          applied += 1;
          assert.notDeepEqual(checkHistory(story.history, story.final, story.rules), []);
        }),
        { numRuns: 120 },
      );
      assert.ok(applied >= 20, `the mutation found a place ${applied} times only`);
    });
  }
});
