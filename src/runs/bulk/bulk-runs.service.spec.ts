import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { TooManyWaiting } from '../run.errors.js';
import { settleItems } from './bulk-runs.service.js';

/** The outcome of an item: success, or a failure of the journal. */
type Outcome = 'done' | 'over-limit' | 'broken';

const settle = (outcomes: readonly Outcome[]): Promise<object[]> =>
  settleItems(outcomes, async (outcome, index) => {
    await Promise.resolve();
    if (outcome === 'over-limit') throw new TooManyWaiting('SETTING');
    if (outcome === 'broken') throw new Error('secret of the server');
    return { status: 201, index };
  });

describe('the items of a bulk request', () => {
  it('that fail by a fault of the service are 500 without its message', async () => {
    assert.deepEqual(await settle(['broken', 'done']), [
      { status: 500, error: { detail: 'Internal server error' } },
      { status: 201, index: 1 },
    ]);
  });

  it('fail as one when the API key is over a limit with all of them', async () => {
    await assert.rejects(settle(['over-limit', 'over-limit']), TooManyWaiting);
    const error = { detail: 'Too many requests of this API key are waiting: SETTING is reached' };
    assert.deepEqual(await settle(['done', 'over-limit']), [
      { status: 201, index: 0 },
      { status: 429, error },
    ]);
  });

  it('are all submitted before anything else can happen', async () => {
    const order: string[] = [];
    const items = [0, 1, 2];
    const all = settleItems(items, async (_, index) => {
      order.push(`in ${index}`);
      await Promise.resolve();
      order.push(`done ${index}`);
      return { status: 201 };
    });
    assert.deepEqual(order, ['in 0', 'in 1', 'in 2']);
    await all;
    assert.equal(order.length, 6);
  });
});
