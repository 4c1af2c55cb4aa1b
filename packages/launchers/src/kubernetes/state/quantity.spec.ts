import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { parseQuantity } from './quantity.js';

describe('a quantity', () => {
  it('is read with its suffix', () => {
    const texts = ['2', '500m', '1.5', '1e3', '64Mi', '1Gi', '2k', '1M', '100u', '-1'];
    assert.deepEqual(
      texts.map(parseQuantity).map((value) => Number(value.toPrecision(12))),
      [2, 0.5, 1.5, 1000, 67_108_864, 1_073_741_824, 2000, 1_000_000, 0.0001, -1],
    );
  });

  it('is 0 when there is none or it cannot be read', () => {
    assert.deepEqual([undefined, '', 'x', '1.2.3', '1Qi'].map(parseQuantity), [0, 0, 0, 0, 0]);
  });
});
