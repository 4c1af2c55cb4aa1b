import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DirectStrategy } from './direct.strategy.js';
import { claimant, queued } from './strategy.fixtures.js';

describe('the strategy direct', () => {
  const direct = new DirectStrategy();

  it('gives the first runs to the claims in their order, one each', () => {
    const runs = [queued('a', { cpu: 99 }), queued('b'), queued('c')];
    assert.deepEqual(direct.choose([claimant('v'), claimant('w')], runs).assignments, [
      { claim: 0, runId: 'a', gpuId: null },
      { claim: 1, runId: 'b', gpuId: null },
    ]);
    assert.deepEqual(direct.choose([claimant('v'), claimant('w')], runs.slice(2)).assignments, [
      { claim: 0, runId: 'c', gpuId: null },
    ]);
  });

  it('asks for one run a claim', () => {
    assert.deepEqual(direct.candidatesFor([claimant('v'), claimant('w')]), { limit: 2 });
  });

  it('sees no obstacle, whatever a run asks for', () => {
    assert.deepEqual(direct.obstacles(), []);
  });
});
