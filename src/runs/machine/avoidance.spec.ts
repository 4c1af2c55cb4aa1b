import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { accepted, after, ASSIGN, decideAt, FRESH, NODE_LOST, refusal } from './decide.fixtures.js';
import type { RunCommand } from './run-command.js';
import type { Run } from './run.js';
import { timerOf } from './timers.js';

const ASSIGN_ELSEWHERE: RunCommand = { type: 'assign', workerId: 'w2', gpuId: null };

describe('the avoidance of a worker', () => {
  const lost = after(FRESH, ASSIGN, NODE_LOST);
  const elapse: RunCommand = { type: 'elapse' };
  const inSeconds = (seconds: number): Date => new Date(lost.queuedAt.getTime() + seconds * 1000);

  test('ends ten seconds after the run may be claimed, and changes nothing else', () => {
    assert.deepEqual(timerOf(lost), { dueAt: inSeconds(10), kind: 'avoidance' });
    refusal(decideAt(lost, elapse, inSeconds(9.999)));
    const { run, entries } = accepted(decideAt(lost, elapse, inSeconds(10)));
    assert.deepEqual([run, entries], [{ ...lost, avoidedWorker: null }, []]);
    assert.equal(timerOf(run), null);
  });

  test('begins at the end of a pause', () => {
    const twice = after(lost, ASSIGN_ELSEWHERE, NODE_LOST);
    const pauseEnd = twice.notBefore ?? assert.fail('it pauses');
    assert.deepEqual(timerOf(twice), { dueAt: pauseEnd, kind: 'back_off' });
    const { run } = accepted(decideAt(twice, elapse, pauseEnd));
    const due = new Date(pauseEnd.getTime() + 10_000);
    assert.deepEqual([run.avoidedWorker, timerOf(run)], ['w2', { dueAt: due, kind: 'avoidance' }]);
  });

  test('precedes a start timeout that is over later, and does not delay one that is over before', () => {
    const kinds = [9, 10, 11].map((startWithinS) => timerOf({ ...lost, startWithinS })?.kind);
    assert.deepEqual(kinds, ['start_timeout', 'start_timeout', 'avoidance']);
    const patient: Run = { ...lost, startWithinS: 11 };
    const { run } = accepted(decideAt(patient, elapse, inSeconds(10)));
    assert.deepEqual(timerOf(run), { dueAt: inSeconds(11), kind: 'start_timeout' });
  });

  test('has no timer once the run is assigned', () => {
    assert.equal(timerOf(after(lost, ASSIGN_ELSEWHERE)), null);
  });
});
