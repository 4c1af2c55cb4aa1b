import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { InvalidRequest } from '../../common/http/errors/domain-error.js';
import type { Effect } from '../journal/pending-command.js';
import { JournalOverloaded } from '../run.errors.js';
import { carryOut } from './carry-out.js';

const AWAY = { status: 503, error: { detail: 'Too many requests are waiting' } };

/** What an item comes to: an effect, a failure of the journal, or a refusal before it is handed in. */
type Fate = 'done' | 'overloaded' | 'broken' | 'invalid' | 'gone';

function begin(fate: Fate, place: number): { effect: Promise<Effect>; answer: (effect: Effect) => object } {
  if (fate === 'invalid') throw new InvalidRequest('no', ['why']);
  const answer = (effect: Effect): object => {
    if (fate === 'gone') throw new InvalidRequest('gone');
    return { ...effect, place };
  };
  if (fate === 'overloaded') return { effect: Promise.reject(new JournalOverloaded()), answer };
  if (fate === 'broken') return { effect: Promise.reject(new Error('secret of the server')), answer };
  return { effect: Promise.resolve({ replayOf: 'run' }), answer };
}

const carry = (fates: readonly Fate[]): Promise<object[]> =>
  carryOut([...fates], (_, place) => {
    const { effect, answer } = begin(fates[place] ?? 'done', place);
    return { effect, answer: (made) => ({ status: 201, ...answer(made) }) };
  });

describe('the items of a bulk request', () => {
  it('are answered at their places, whatever becomes of the others', async () => {
    assert.deepEqual(await carry(['done', 'invalid', 'overloaded', 'gone', 'done']), [
      { status: 201, replayOf: 'run', place: 0 },
      { status: 400, error: { detail: 'no', errors: ['why'] } },
      AWAY,
      { status: 400, error: { detail: 'gone' } },
      { status: 201, replayOf: 'run', place: 4 },
    ]);
  });

  it('that fail by a fault of the service are 500 without its words', async () => {
    assert.deepEqual(await carry(['broken', 'done']), [
      { status: 500, error: { detail: 'Internal server error' } },
      { status: 201, replayOf: 'run', place: 1 },
    ]);
  });

  it('fail as one when the service can carry out none of them', async () => {
    await assert.rejects(carry(['overloaded', 'overloaded']), JournalOverloaded);
    assert.deepEqual(await carry(['overloaded', 'invalid']), [
      AWAY,
      { status: 400, error: { detail: 'no', errors: ['why'] } },
    ]);
  });

  it('are all handed in before anything else can happen', async () => {
    const order: string[] = [];
    const items = [0, 1, 2];
    const all = carryOut(items, (_, place) => {
      order.push(`in ${place}`);
      const effect = Promise.resolve({ replayOf: 'run' }).then((made) => {
        order.push(`done ${place}`);
        return made;
      });
      return { effect, answer: () => ({ status: 201 }) };
    });
    assert.deepEqual(order, ['in 0', 'in 1', 'in 2']);
    await all;
    assert.equal(order.length, 6);
  });
});
