import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { DirectStrategy } from './direct.strategy.js';
import { claimant, heldBy, queued } from './strategy.fixtures.js';

describe('the strategy direct', () => {
  const direct = new DirectStrategy();

  it('asks for one run a claim, or for what the claim asks for', () => {
    assert.deepEqual(direct.candidatesFor([claimant('v'), claimant('w')]), { limit: 2 });
    assert.deepEqual(direct.candidatesFor([{ ...claimant('v'), max: 40 }, claimant('w')]), { limit: 41 });
  });

  it('gives each claim as many as it asks for, one by default, before the next one gets any', () => {
    const runs = ['a', 'b', 'c', 'd', 'e'].map((id) => queued(id));
    const claims = [{ ...claimant('u'), max: 2 }, claimant('v'), { ...claimant('w'), max: 9 }];
    assert.deepEqual(
      direct.choose(claims, runs).assignments.map(({ claim, runId }) => [claim, runId]),
      [
        [0, 'a'],
        [0, 'b'],
        [1, 'c'],
        [2, 'd'],
        [2, 'e'],
      ],
    );
  });

  it('names what the idle worker lacks, and gives it the run all the same', () => {
    const small = claimant('w', { cpu: 2 }, [heldBy('w', 'other', { cpu: 2 })]);
    assert.deepEqual(direct.obstacles(small, queued('a', { cpu: 2 })), []);
    const large = queued('b', { cpu: 3 });
    assert.deepEqual(direct.obstacles(small, large), [{ resource: 'cpu', needed: 3, free: 2, total: 2 }]);
    assert.deepEqual(direct.choose([small], [large]).assignments, [{ claim: 0, runId: 'b', gpuId: null }]);
  });
});
