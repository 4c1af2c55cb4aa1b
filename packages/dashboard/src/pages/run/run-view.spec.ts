import assert from 'node:assert/strict';
import { test } from 'vitest';
import { attemptText } from './run-view.js';

const textOf = (attempt: number, allowed: number, summary = {}): string =>
  attemptText({
    current_attempt: attempt,
    retry_policy: { max_attempts: allowed },
    execution_summary: summary,
  });

test('attempts lost to the infrastructure are not counted among those allowed', () => {
  assert.equal(textOf(1, 3), '1 of 3');
  // An attempt that somebody asked for.
  assert.equal(textOf(2, 1), '2 of 2');
  assert.equal(textOf(2, 1, { reclaims: 1 }), '2 (1 lost to the infrastructure, not counted)');
  assert.equal(
    textOf(3, 2, { reclaims: 1 }),
    '3 (1 lost to the infrastructure, not counted among the 2 allowed)',
  );
});
