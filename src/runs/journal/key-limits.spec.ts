import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { later, NEW_RUN, T0 } from '../machine/decide.fixtures.js';
import { createRun, type CreatedRun, type NewRun } from '../machine/run.js';
import { TooManyToCancel } from '../run.errors.js';
import { KeyLimits, wantedKeys } from './key-limits.js';

const KEYED = { ...NEW_RUN, concurrencyKey: 'k', concurrencyLimit: 2 };
const run = (id: string, given: Partial<NewRun> = {}, at = T0): CreatedRun =>
  createRun({ ...KEYED, id, ...given }, at);
const create = (given: Partial<NewRun>) => ({ kind: 'create', fresh: { ...KEYED, ...given } }) as const;

describe('the limits of keys', () => {
  test('want the keys of new runs that they decide about, and no others', () => {
    assert.deepEqual(wantedKeys([create({}), create({ concurrencyOnLimit: 'queue' })]), []);
    const commands = [
      create({ concurrencyOnLimit: 'skip', concurrencyLimit: 7 }),
      create({ concurrencyOnLimit: 'cancel_oldest' }),
      create({ concurrencyOnLimit: 'cancel_oldest', concurrencyLimit: 5 }),
    ];
    assert.deepEqual(wantedKeys(commands), [{ key: 'k', counted: 1_007, created: 3, readFrom: 2 }]);
  });

  test('cancel the oldest by creation, then id, whatever the order in which they are found', () => {
    const found = [run('c', {}, later(1)), run('d', {}, later(2)), run('b'), run('a')];
    const limits = new KeyLimits(new Map([['k', 4]]), found);
    const decision = limits.decide(run('new', { concurrencyOnLimit: 'cancel_oldest' }, later(3)));
    assert.ok(decision.effect === 'cancel');
    assert.deepEqual(
      decision.runs.map(({ id }) => id),
      ['a', 'b', 'c'],
    );
  });

  test('count runs that the group has ended no more, and those that it opens again', () => {
    const open = run('a');
    const ended = { ...open, state: 'COMPLETED' } as const;
    const limits = new KeyLimits(new Map([['k', 2]]), [open]);
    const skipping = run('new', { concurrencyOnLimit: 'skip' });
    assert.equal(limits.decide(skipping).effect, 'skip');
    limits.note(open, ended);
    assert.equal(limits.decide(skipping).effect, 'none');
    limits.note(ended, open);
    assert.equal(limits.decide(skipping).effect, 'skip');
  });

  test('refuse a new run that would cancel more than 1,000; where it cannot be refused, it is skipped', () => {
    const replacing = run('new', { concurrencyOnLimit: 'cancel_oldest' });
    const few = new KeyLimits(new Map([['k', 1_001]]), []);
    few.check(replacing);
    assert.equal(few.decide(replacing).effect, 'cancel');
    const many = new KeyLimits(new Map([['k', 1_002]]), []);
    assert.throws(() => many.check(replacing), TooManyToCancel);
    assert.equal(many.decide(replacing).effect, 'skip');
  });
});
