import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { requirementIdOf } from '../requirements.js';
import { laneOf, offerOf, PLAIN_LANE, requiredOf, serves } from './lane.js';

const NOTHING = { tags: [], capabilities: [], gpuTags: [] };
const PLAIN = { requirementId: null, concurrencyKey: null, avoidedWorker: null };
const GPU = { tags: ['gpu'], capabilities: ['env'], gpuTags: [] };
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
    ].map((worker) => serves(offerOf(worker), { required }));
    assert.deepEqual(serving, [true, false, false, false]);
  });

  test('is not confused by tags that look like other demands', () => {
    const worker = { id: 'v', tags: ['not-worker:v', 'concurrency-key'], capabilities: [], gpus: [] };
    const avoiding = { required: requiredOf({ ...PLAIN, avoidedWorker: 'v' }, NOTHING) };
    assert.equal(serves(offerOf(worker), avoiding), false);
    assert.equal(serves(offerOf(worker), { required: ['tag:not-worker:v'] }), true);
  });
});
