import assert from 'node:assert/strict';
import { test } from 'node:test';
import { whyNotOurs } from './run-ownership.js';
import type { RunView } from '../service-api/service-api.js';

const ours: RunView = {
  state: 'RUNNING',
  currentAttempt: 2,
  image: 'i',
  inputs: {},
  outputs: {},
  workerId: 'w',
};

test('leaves alone what the service sees in our hands', () => {
  for (const state of ['ASSIGNED', 'RUNNING']) assert.equal(whyNotOurs({ ...ours, state }, 'w', 2), null);
  assert.equal(whyNotOurs(ours, 'w', null), null);
});

const cases: [string, Partial<RunView>, RegExp][] = [
  ['cancelled', { state: 'CANCELLED' }, /CANCELLED/],
  ['failed', { state: 'FAILED' }, /FAILED/],
  ['completed', { state: 'COMPLETED' }, /COMPLETED/],
  ['assigned to another worker', { workerId: 'v' }, /worker 'v'/],
  ['assigned to nobody', { workerId: null, state: 'PENDING' }, /no worker/],
  ['at a later attempt', { currentAttempt: 3 }, /attempt 3, this was attempt 2/],
];

for (const [what, change, text] of cases) {
  test(`gives up a run that is ${what}`, () => {
    assert.match(whyNotOurs({ ...ours, ...change }, 'w', 2) ?? '', text);
  });
}
