import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { HeldRun, Shape } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../../workers/pool/worker-pool.js';
import type { KindDemand } from './demand.reader.js';
import { wantedWorkers, type WantedFor, type WorkerKind } from './wanted-workers.js';

const KIND: WorkerKind = { tags: [], cpu: 4, ramMb: 8000, vramMb: 0, min: 0, max: 100 };

const pending = (admitted: number, shape: Partial<Shape> = {}, required: string[] = []): KindDemand => ({
  required,
  admitted,
  cpuMillis: 0,
  ramMb: 0,
  vramMb: 0,
  gpus: 0,
  ...shape,
});

const worker = (id: string, given: Partial<PooledWorker> = {}): PooledWorker => ({
  id,
  cpuCores: 4,
  ramMb: 8000,
  gpus: [],
  tags: [],
  capabilities: [],
  engine: null,
  containerEngine: null,
  notClaiming: [],
  unable: [],
  runningOps: [],
  createdAt: new Date(),
  lastHeartbeatAt: new Date(),
  isActive: true,
  isDraining: false,
  awayUntil: null,
  ...given,
});

const run = (workerId: string, shape: Partial<Shape> = {}): HeldRun => ({
  runId: 'run',
  workerId,
  gpuIds: [],
  ...pending(1, shape),
});

function wanted(
  kinds: readonly KindDemand[],
  { kind = {}, ...given }: Partial<WantedFor> & { readonly kind?: Partial<WorkerKind> } = {},
): number {
  const defaults = { workers: [], held: new Map(), isAtLeast: false, isByFit: true };
  return wantedWorkers({ ...KIND, ...kind }, { ...defaults, kinds, ...given }).wanted;
}

describe('the number of wanted workers by fit', () => {
  test('is that into which the runs fit, by their scarcest resource', () => {
    assert.equal(wanted([]), 0);
    assert.equal(wanted([pending(9, { cpuMillis: 1000 })]), 3);
    assert.equal(wanted([pending(9, { cpuMillis: 1000, ramMb: 4000 })]), 5);
    assert.equal(wanted([pending(100_000)]), 1);
    assert.equal(wanted([pending(9, { cpuMillis: 1000 })], { kind: { cpu: undefined } }), 1);
  });

  test('fills the gaps that large runs leave with small ones', () => {
    const mixed = [pending(4, { cpuMillis: 1000 }), pending(4, { cpuMillis: 3000 })];
    assert.equal(wanted(mixed), 4);
    assert.equal(wanted([...mixed, pending(1, { cpuMillis: 500 })]), 5);
  });

  test('packs shares of a GPU and whole GPUs', () => {
    const kind = { vramMb: 8000 };
    assert.equal(wanted([pending(4, { vramMb: 4000 })], { kind }), 2);
    assert.equal(wanted([pending(2, { vramMb: 1000 }), pending(2, { gpus: 1 })], { kind }), 3);
    assert.equal(wanted([pending(1, { gpus: 2 }), pending(1, { vramMb: 9000 })], { kind }), 0);
  });

  test('keeps every worker that executes a run, uses its free places, and needs no idle one', () => {
    const workers = [worker('busy'), worker('draining', { isDraining: true }), worker('idle')];
    const held = new Map(['busy', 'draining'].map((id) => [id, [run(id, { cpuMillis: 1000 })]]));
    assert.equal(wanted([], { workers, held }), 2);
    assert.equal(wanted([pending(3, { cpuMillis: 1000 })], { workers, held }), 2);
    assert.equal(wanted([pending(4, { cpuMillis: 1000 })], { workers, held }), 3);
  });

  test('leaves out runs that are too large, and says how many', () => {
    const kinds = [pending(2, { cpuMillis: 5000 }), pending(1, { cpuMillis: 1000 })];
    const given = { kinds, workers: [], held: new Map(), isAtLeast: true, isByFit: true };
    assert.deepEqual(wantedWorkers(KIND, given), {
      wanted: 1,
      because:
        '0 workers execute 0 runs, and at least 3 pending runs that such workers may get now need 1 more, as runs fit into such a ' +
        'worker. 2 of these runs do not fit into such a worker.',
    });
  });
});

describe('the number of wanted workers', () => {
  test('of another strategy is by the runs that a worker takes at a time', () => {
    const workers = [worker('busy')];
    const held = new Map([['busy', [run('busy')]]]);
    assert.equal(wanted([pending(10)], { isByFit: false }), 3);
    assert.equal(wanted([pending(10)], { isByFit: false, kind: { cpu: undefined } }), 10);
    assert.equal(wanted([pending(10)], { isByFit: false, workers, held }), 3);
    assert.equal(wanted([pending(12)], { isByFit: false, workers, held }), 4);
  });

  test('counts runs that require no other tags and nothing that present workers cannot do', () => {
    const kinds = [pending(1), pending(2, {}, ['tag:gpu']), pending(4, {}, ['capability:env', 'tag:gpu'])];
    const count = (tags: string[], workers: PooledWorker[] = []): number =>
      wanted(kinds, { workers, isByFit: false, kind: { tags, cpu: 1 } });
    assert.equal(count([]), 1);
    assert.equal(count(['gpu']), 7);
    assert.equal(count(['gpu'], [worker('w', { tags: ['gpu'] })]), 3);
    assert.equal(count(['gpu'], [worker('w', { tags: ['gpu', 'eu'] })]), 7);
  });

  test('does not count runs of workers with other tags', () => {
    const workers = [worker('other', { tags: ['gpu'] })];
    assert.equal(wanted([], { workers, held: new Map([['other', [run('other')]]]) }), 0);
  });

  test('is between the bounds', () => {
    const kinds = [pending(9, { cpuMillis: 4000 })];
    assert.equal(wanted(kinds, { kind: { max: 3 } }), 3);
    assert.equal(wanted([], { kind: { min: 2 } }), 2);
  });
});
