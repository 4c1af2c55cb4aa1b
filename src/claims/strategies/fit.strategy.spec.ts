import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { Choice, Claimant, QueuedRun } from '../../runs/scheduling-strategy.js';
import { FitStrategy } from './fit.strategy.js';
import { ago, claimant, heldBy, NOW, queued, shape } from './strategy.fixtures.js';

const fit = new FitStrategy(300);
const big = (more: Partial<QueuedRun> = {}): QueuedRun => queued('big', { cpu: 4 }, more);
const small = (id = 'small'): QueuedRun => queued(id, { cpu: 1 });

function choose(
  claimants: readonly Claimant[],
  runs: readonly QueuedRun[],
  reachable: readonly string[] = [],
): Choice {
  return fit.choose(claimants, runs, { now: NOW, reachable: new Set(reachable) });
}

/** What was given, as `worker: run, run@gpu ...`. */
function given(claimants: readonly Claimant[], runs: readonly QueuedRun[]): string[] {
  const { assignments } = choose(claimants, runs);
  return claimants.map(({ id }, i) => {
    const own = assignments.filter(({ claim }) => claim === i);
    return `${id}: ${own.map(({ runId, gpuId }) => (gpuId === null ? runId : `${runId}@${gpuId}`)).join(', ')}`;
  });
}

describe('the strategy fit', () => {
  it('distributes runs among the workers that claim together', () => {
    const runs = ['a', 'b', 'c', 'd', 'e'].map((id) => queued(id));
    assert.deepEqual(given([claimant('v'), claimant('w')], runs), ['v: a, c, e', 'w: b, d']);
  });

  it('names the resource that a worker lacks, and how much', () => {
    const held = [heldBy('w', 'x', { cpu: 3, ramMb: 50, vramMb: 10, gpuId: 1 })];
    const worker = claimant('w', { cpu: 4, ramMb: 100, gpus: [8, 24] }, held);
    assert.deepEqual(fit.obstacles(worker, queued('a', { cpu: 2, ramMb: 51, vramMb: 20 })), [
      { resource: 'cpu', needed: 2, free: 1, total: 4 },
      { resource: 'ram_mb', needed: 51, free: 50, total: 100 },
      { resource: 'vram_mb', needed: 20, free: 14, total: 24 },
    ]);
    assert.deepEqual(fit.obstacles(worker, queued('b', { cpu: 1, ramMb: 50, vramMb: 14 })), []);
  });

  it('names the reservation of a worker for another run', () => {
    const worker = { ...claimant('w', { cpu: 4 }), keptFor: 'big' };
    assert.deepEqual(fit.obstacles(worker, queued('a')), [
      { resource: 'reserved', needed: 1, free: 0, total: 1 },
    ]);
    assert.deepEqual(fit.obstacles(worker, queued('big', { cpu: 4 })), []);
  });

  describe('asks for candidates', () => {
    const now = NOW;

    it('by what the workers have, and by what they have left where that is less, each size once', () => {
      const held = [heldBy('v', 'x', { cpu: 3, vramMb: 6, gpuId: 1 })];
      const has = { cpu: 4, ramMb: 100, gpus: [8, 24] };
      const query = fit.candidatesFor([claimant('v', has, held), claimant('w', has)], now);
      assert.deepEqual(query, {
        limit: 100,
        capacity: [shape({ cpu: 4, ramMb: 100, vramMb: 24 })],
        free: [shape({ cpu: 1, ramMb: 100, vramMb: 18 })],
        passedOverBefore: ago(300),
      });
    });

    it('no larger than a run can be, and in bounded number for any number of workers', () => {
      const workers = Array.from({ length: 200 }, (_, i) => claimant(`w${i}`, { cpu: 2 ** 40, ramMb: i }));
      const { limit, capacity = [] } = fit.candidatesFor(workers, now);
      assert.equal(limit, 400);
      assert.equal(capacity.length, 4);
      assert.deepEqual(capacity.at(0), shape({ cpu: 2 ** 31 - 1 }));
      assert.deepEqual(capacity.at(-1), shape({ cpu: 2 ** 31 - 1, ramMb: 199 }));
    });
  });
});

describe('the strategy fit reserves a worker', () => {
  const busy = claimant('w', { cpu: 4 }, [heldBy('w', 'x', { cpu: 1 })]);

  it('not for a run that fits and comes next, when the worker has got as many as it asks for', () => {
    const waiting = queued('waiting', { cpu: 1 }, { passedOverAt: ago(900) });
    const once = { ...claimant('w', { cpu: 4 }), max: 1 };
    assert.deepEqual(choose([once], [small(), waiting]), {
      assignments: [{ claim: 0, runId: 'small', gpuId: null }],
      reservations: [],
      passedOver: [],
    });
  });

  it('and first assigns it the run of the reservation, though it asks for one only', () => {
    const idle = { ...claimant('w', { cpu: 5 }), max: 1 };
    const waiting = big({ passedOverAt: ago(900), reservedFor: 'w' });
    assert.deepEqual(choose([idle], [small(), waiting], ['w']).assignments, [
      { claim: 0, runId: 'big', gpuId: null },
    ]);
  });

  it('not for a run that was passed over for less than the limit, nor marks it again', () => {
    const { assignments, reservations, passedOver } = choose(
      [busy],
      [big({ passedOverAt: ago(299) }), small()],
    );
    assert.deepEqual([assignments.length, reservations, passedOver], [1, [], []]);
  });

  it('for a run that was passed over for that long, and assigns it nothing else', () => {
    assert.deepEqual(choose([busy], [big({ passedOverAt: ago(300) }), small()]), {
      assignments: [],
      reservations: [{ runId: 'big', workerId: 'w' }],
      passedOver: [],
    });
  });

  it('from one claim to the next, without a new reservation', () => {
    const waiting = big({ passedOverAt: ago(900), reservedFor: 'w' });
    assert.deepEqual(choose([busy], [small(), waiting], ['w']), {
      assignments: [],
      reservations: [],
      passedOver: [],
    });
  });

  it('until the run fits; then the worker gets it, and what else fits', () => {
    const idle = claimant('w', { cpu: 5 });
    const waiting = big({ passedOverAt: ago(900), reservedFor: 'w' });
    const { assignments } = choose([idle], [small('a'), waiting, small('b')], ['w']);
    assert.deepEqual(
      assignments.map(({ runId }) => runId),
      ['big', 'a'],
    );
  });

  it('no longer once another worker has taken the run', () => {
    const other = claimant('v', { cpu: 4 });
    const waiting = big({ passedOverAt: ago(900), reservedFor: 'w' });
    assert.deepEqual(choose([busy, other], [waiting, small()], ['w']).assignments, [
      { claim: 1, runId: 'big', gpuId: null },
      { claim: 0, runId: 'small', gpuId: null },
    ]);
  });

  it('no longer once another worker has taken the run, so that earlier runs get the place', () => {
    const workers = [
      claimant('w', { cpu: 4, ramMb: 9 }, [heldBy('w', 'x', { cpu: 1 })]),
      claimant('v', { cpu: 4 }),
    ];
    const before = queued('before', { ramMb: 9 });
    const waiting = big({ passedOverAt: ago(900), reservedFor: 'w' });
    assert.deepEqual(choose(workers, [before, waiting], ['w']).assignments, [
      { claim: 1, runId: 'big', gpuId: null },
      { claim: 0, runId: 'before', gpuId: null },
    ]);
  });

  it('and not a second one while the first can be reached, but the next one when it cannot', () => {
    const waiting = big({ passedOverAt: ago(900), reservedFor: 'gone' });
    const reached = choose([busy], [waiting, small()], ['gone']);
    assert.deepEqual([reached.assignments.length, reached.reservations], [1, []]);
    const lost = choose([busy], [waiting, small()]);
    assert.deepEqual([lost.assignments, lost.reservations], [[], [{ runId: 'big', workerId: 'w' }]]);
  });

  it('no longer when it has become too small for the run', () => {
    const shrunk = claimant('w', { cpu: 3 });
    const waiting = big({ passedOverAt: ago(900), reservedFor: 'w' });
    const { assignments, reservations } = choose([shrunk], [waiting, small()], ['w']);
    assert.deepEqual([assignments.length, reservations], [1, [{ runId: 'big', workerId: null }]]);
  });

  it('at the first chance after a run was passed over when the limit is 0', () => {
    const eager = new FitStrategy(0);
    const context = { now: NOW, reachable: new Set<string>() };
    assert.deepEqual(eager.choose([busy], [big(), small()], context).reservations, []);
    const { reservations } = eager.choose([busy], [big({ passedOverAt: NOW }), small()], context);
    assert.deepEqual(reservations, [{ runId: 'big', workerId: 'w' }]);
  });
});
