import assert from 'node:assert/strict';
import { test } from 'vitest';
import { lossReason } from './run-requests.js';
import type { RunOwnership } from '../service-api/service-api.js';

const own: RunOwnership = { state: 'RUNNING', currentAttempt: 2, workerId: 'w' };

test('keeps an attempt that is assigned to this worker', () => {
  for (const state of ['ASSIGNED', 'RUNNING']) assert.equal(lossReason({ ...own, state }, 'w', 2), null);
  assert.equal(lossReason(own, 'w', null), null);
});

const cases: [string, Partial<RunOwnership>, RegExp][] = [
  ['cancelled', { state: 'CANCELLED' }, /CANCELLED/],
  ['failed', { state: 'FAILED' }, /FAILED/],
  ['completed', { state: 'COMPLETED' }, /COMPLETED/],
  ['assigned to another worker', { workerId: 'v' }, /worker 'v'/],
  ['assigned to no worker', { workerId: null, state: 'PENDING' }, /no worker/],
  ['at a later attempt', { currentAttempt: 3 }, /attempt 3, this was attempt 2/],
];

for (const [what, change, text] of cases) {
  test(`loses a run that is ${what}`, () => {
    assert.match(lossReason({ ...own, ...change }, 'w', 2) ?? '', text);
  });
}
