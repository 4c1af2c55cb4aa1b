import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const LONGEST = 31_622_400;
const DAY = 86_400;
const ONE = policy({ max_attempts: 1 });

/** What is sent, and what is shown of it: the blocks `timeouts` and `retry_policy`. */
const TAKEN: readonly (readonly [title: string, sent: object, shown: object])[] = [
  ['no budget', {}, ONE],
  ['null for the budgets', { timeouts: null }, ONE],
  ['no budget in the block', { timeouts: {} }, ONE],
  ['nulls in the block', { timeouts: { start_within_s: null, attempt_s: null } }, ONE],
  ['the smallest budgets', budgets(1, 1), { ...budgets(1, 1), ...ONE }],
  ['the largest budgets', budgets(LONGEST, LONGEST), { ...budgets(LONGEST, LONGEST), ...ONE }],
  [
    'a budget of the start alone',
    { timeouts: { start_within_s: 7 } },
    { timeouts: { start_within_s: 7 }, ...ONE },
  ],
  [
    'a budget of the attempt alone, beside a null',
    { timeouts: { start_within_s: null, attempt_s: 9 } },
    { timeouts: { attempt_s: 9 }, ...ONE },
  ],
  ['a back-off of 0, which is none', policy({ backoff_s: 0, max_backoff_s: 0 }), ONE],
  ['nulls for the back-off', policy({ backoff_s: null, max_backoff_s: null }), ONE],
  ['a back-off alone', policy({ backoff_s: 1 }), policy({ max_attempts: 1, backoff_s: 1 })],
  ['a bound alone', policy({ max_backoff_s: 5 }), policy({ max_attempts: 1, max_backoff_s: 5 })],
  [
    'the longest back-off',
    policy({ max_attempts: 3, backoff_s: DAY, max_backoff_s: DAY }),
    policy({ max_attempts: 3, backoff_s: DAY, max_backoff_s: DAY }),
  ],
  [
    'a bound below the back-off',
    policy({ backoff_s: 9, max_backoff_s: 2 }),
    policy({ max_attempts: 1, backoff_s: 9, max_backoff_s: 2 }),
  ],
];

const NO_BUDGETS = [0, -1, 1.5, '1', true, [], {}, LONGEST + 1, 2 ** 31, 2 ** 53 - 1];
const NO_PAUSES = [-1, 0.5, '0', false, [], {}, DAY + 1, 2 ** 31];

/** What is refused, and the lines that say so. */
const REFUSED: readonly (readonly [sent: object, errors: readonly string[]])[] = [
  ...NO_BUDGETS.flatMap((value) =>
    ['start_within_s', 'attempt_s'].map(
      (field) =>
        [
          { timeouts: { [field]: value } },
          [`timeouts.${field} must be an integer from 1 to ${LONGEST}`],
        ] as const,
    ),
  ),
  ...NO_PAUSES.flatMap((value) =>
    ['backoff_s', 'max_backoff_s'].map(
      (field) =>
        [policy({ [field]: value }), [`retry_policy.${field} must be an integer from 0 to ${DAY}`]] as const,
    ),
  ),
  ...[5, 'x', [], true].map((timeouts) => [{ timeouts }, ['timeouts must be an object']] as const),
  [{ timeouts: { queue_s: 1 } }, ['timeouts.queue_s is not a known field']],
  [policy({ backoff: 1 }), ['retry_policy.backoff is not a known field']],
  [
    { timeouts: { start_within_s: 0, attempt_s: 0 } },
    [
      `timeouts.start_within_s must be an integer from 1 to ${LONGEST}`,
      `timeouts.attempt_s must be an integer from 1 to ${LONGEST}`,
    ],
  ],
];

describe('time budgets and back-off', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let made = 0;

  const upsert = (body: object): Promise<TestAnswer> => {
    made += 1;
    return service.send('POST', '/definitions', {
      body: { id: `def-${made}`, version: '1', image: 'i', ...body },
    });
  };

  describe('are taken by a new run', () => {
    for (const [title, sent, shown] of TAKEN) {
      test(title, async () => {
        const created = await steps.create({ ...sent });
        assert.deepEqual(blocksOf(created), shown);
        assert.deepEqual(blocksOf(await steps.get(created.id)), shown);
        const { body } = await service.send('GET', '/runs?limit=1');
        assert.deepEqual(blocksOf(body.data[0]), shown);
      });
    }
  });

  describe('are taken by a definition and by its runs', () => {
    for (const [title, sent, shown] of TAKEN) {
      test(title, async () => {
        const { status, body: stored } = await upsert(sent);
        assert.equal(status, 201);
        assert.deepEqual(blocksOf(stored), shown);
        const read = await service.send('GET', `/definitions/${stored.id}`);
        assert.deepEqual(blocksOf(read.body), shown);
        const { body: run } = await service.send('POST', `/definitions/${stored.id}/runs`, { body: {} });
        assert.deepEqual(blocksOf(run), shown);
        assert.deepEqual(blocksOf(await steps.get(run.id)), shown);
      });
    }
  });

  describe('are refused', () => {
    for (const [sent, errors] of REFUSED) {
      test(JSON.stringify(sent), async () => {
        assertInvalid(await service.send('POST', '/runs', { body: { image: 'i', ...sent } }), errors);
        assertInvalid(await upsert(sent), errors);
      });
    }

    test('in a run of a definition, as in a run without one', async () => {
      const { body } = await upsert({});
      const answer = await service.send('POST', `/definitions/${body.id}/runs`, { body: budgets(0, 1) });
      assertInvalid(answer, ['timeouts.start_within_s must be an integer from 1 to 31622400']);
    });
  });

  test('are replaced and taken away with their definition; runs keep theirs', async () => {
    const send = (body: object): Promise<TestAnswer> =>
      service.send('POST', '/definitions', { body: { id: 'replaced', version: '1', image: 'i', ...body } });
    await send({ ...budgets(5, 6), retry_policy: { backoff_s: 7, max_backoff_s: 8 } });
    const { body: run } = await service.send('POST', '/definitions/replaced/runs', { body: {} });
    const replaced = await send({});
    assert.equal(replaced.status, 200);
    assert.deepEqual(blocksOf(replaced.body), ONE);
    assert.deepEqual(blocksOf(await steps.get(run.id)), {
      ...budgets(5, 6),
      ...policy({ max_attempts: 1, backoff_s: 7, max_backoff_s: 8 }),
    });
  });
});

function budgets(startWithinS: number, attemptS: number): object {
  return { timeouts: { start_within_s: startWithinS, attempt_s: attemptS } };
}

function policy(retryPolicy: object): object {
  return { retry_policy: retryPolicy };
}

/** The two blocks as an answer shows them, as far as it does. */
function blocksOf(answer: Record<string, unknown>): object {
  const { timeouts, retry_policy: retryPolicy } = answer;
  return { ...('timeouts' in answer ? { timeouts } : {}), retry_policy: retryPolicy };
}
