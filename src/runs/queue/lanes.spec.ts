import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { ClaimablePart } from '../../database/notices/commit-notice.js';
import type { NoticeListener } from '../../database/notices/commit-notices.js';
import { offerOf, type Lane, laneOf, PLAIN_LANE, requiredOf, serves } from './lane.js';
import { Lanes } from './lanes.js';
import { requirementIdOf } from '../requirements.js';

const worker = (...tags: string[]) => offerOf({ id: 'w', tags, capabilities: [], gpus: [] });
const lane = (id: string, ...required: string[]): Lane => ({ id, required });
const idsFor = (lanes: Lanes, ...tags: string[]): string[] =>
  lanes
    .servedBy(worker(...tags))
    .map(({ id }) => id)
    .toSorted();

const ignore = (): undefined => undefined;

/** Lanes of a process, and the notices that it gets. */
function setUp() {
  let listener: NoticeListener = ignore;
  const state = { isListening: true };
  const lanes = new Lanes({
    subscribe: (listen) => {
      listener = listen;
      return () => undefined;
    },
    get isListening() {
      return state.isListening;
    },
  });
  lanes.onModuleInit();
  return { lanes, state, notify: (queue: ClaimablePart | null) => listener(queue && { queue }) };
}

describe('the active lanes of a process', () => {
  test('are those that its own runs and notifications named, for workers that may serve them', () => {
    const { lanes, notify } = setUp();
    lanes.expect([lane('a', 'tag:gpu'), lane('b', 'tag:gpu', 'tag:linux'), lane('c', 'not-worker:v')]);
    notify({ others: 1, lanes: { d: ['not-worker:w'], e: ['concurrency-key'] } });
    assert.deepEqual(idsFor(lanes), ['c', 'e']);
    assert.deepEqual(idsFor(lanes, 'gpu'), ['a', 'c', 'e']);
    assert.deepEqual(idsFor(lanes, 'gpu', 'linux'), ['a', 'b', 'c', 'e']);
  });

  test('are forgotten when they are found empty, unless a run was announced meanwhile', () => {
    const { lanes, notify } = setUp();
    lanes.expect([lane('a', 'tag:gpu'), lane('b', 'tag:gpu')]);
    const { version } = lanes;
    notify({ others: 1, lanes: { b: ['tag:gpu'] } });
    lanes.foundEmpty(['a', 'b'], version);
    assert.deepEqual(idsFor(lanes, 'gpu'), ['b']);
    lanes.foundEmpty(['b'], lanes.version);
    assert.deepEqual(idsFor(lanes, 'gpu'), []);
    notify({ others: 1, lanes: { a: ['tag:gpu'] } });
    assert.deepEqual(idsFor(lanes, 'gpu'), ['a']);
  });

  test('are bounded in number: lanes that no worker serves are forgotten, too', () => {
    const { lanes } = setUp();
    for (let n = 0; n < 5_000; n += 1) lanes.expect([lane(String(n), 'tag:gpu')]);
    assert.ok(idsFor(lanes, 'gpu').length <= 1_000);
    assert.equal(lanes.areEmpty, false);
  });

  test('of many selectors that share a tag are found by the other tag', () => {
    const { lanes } = setUp();
    lanes.expect(Array.from({ length: 500 }, (_, n) => lane(String(n), 'tag:shared', `tag:team-${n}`)));
    assert.deepEqual(idsFor(lanes, 'shared', 'team-7'), ['7']);
  });
});

const NOTHING = { tags: [], capabilities: [], gpuTags: [], gpus: null };
const PLAIN = { requirementId: null, concurrencyKey: null, avoidedWorker: null };
const GPU = { tags: ['gpu'], capabilities: ['env'], gpuTags: [], gpus: null };
const gpuRun = { ...PLAIN, requirementId: requirementIdOf(GPU) };

describe('the lane of a run', () => {
  test('is the plain one if every worker may get the run at any time', () => {
    assert.equal(laneOf(PLAIN), PLAIN_LANE);
    assert.deepEqual(requiredOf(PLAIN, NOTHING), []);
  });

  test('is the same for runs that the same workers may get, and another one for each other demand', () => {
    const runs = [gpuRun, PLAIN].flatMap((run) =>
      [null, 'key'].flatMap((concurrencyKey) =>
        [null, 'v', 'w'].map((avoidedWorker) => ({ ...run, concurrencyKey, avoidedWorker })),
      ),
    );
    assert.equal(new Set(runs.map(laneOf)).size, runs.length);
    assert.deepEqual(
      runs.map(laneOf),
      runs.map((run) => laneOf({ ...run, concurrencyKey: run.concurrencyKey && 'another key' })),
    );
  });

  test('may be served by workers with all tags and capabilities, except the avoided one', () => {
    const avoiding = { ...gpuRun, concurrencyKey: 'key', avoidedWorker: 'v' };
    const required = requiredOf(avoiding, GPU);
    assert.deepEqual(required, ['capability:env', 'tag:gpu', 'concurrency-key', 'not-worker:v']);
    const serving = [
      { id: 'w', tags: ['gpu', 'linux'], capabilities: ['env'], gpus: [] },
      { id: 'v', tags: ['gpu'], capabilities: ['env'], gpus: [] },
      { id: 'w', tags: ['env'], capabilities: ['gpu'], gpus: [] },
      { id: 'w', tags: ['gpu'], capabilities: [], gpus: [] },
    ].map((one) => serves(offerOf(one), { required }));
    assert.deepEqual(serving, [true, false, false, false]);
  });

  test('is not confused by tags that look like other demands', () => {
    const tagged = { id: 'v', tags: ['not-worker:v', 'concurrency-key'], capabilities: [], gpus: [] };
    const avoiding = { required: requiredOf({ ...PLAIN, avoidedWorker: 'v' }, NOTHING) };
    assert.equal(serves(offerOf(tagged), avoiding), false);
    assert.equal(serves(offerOf(tagged), { required: ['tag:not-worker:v'] }), true);
  });
});
