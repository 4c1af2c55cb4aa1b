import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import fc from 'fast-check';
import { isRetried, isRetryOnEntry, RETRY_ON_CAUSES } from './retry-on.js';
import { FAILURE_CAUSES, MAX_EXIT_CODE } from './event-types.js';

const EXIT_CODE = fc.integer({ min: 0, max: MAX_EXIT_CODE });
const FAILURE = fc.record({
  cause: fc.constantFrom(...RETRY_ON_CAUSES),
  exitCode: fc.option(EXIT_CODE),
});

describe('an entry of retry_on', () => {
  const valid = [
    ...RETRY_ON_CAUSES,
    'exit:0',
    'exit:75',
    'exit:255',
    'exit:100-110',
    'exit:0-255',
    'exit:7-7',
  ];
  for (const entry of valid) test(`may be ${entry}`, () => assert.ok(isRetryOnEntry(entry)));

  const invalid = [
    '',
    'Exit',
    'infrastructure',
    'exit:',
    'exit:256',
    'exit:1000',
    'exit:075',
    'exit:-1',
    'exit:1-',
    'exit:110-100',
    'exit:1-256',
    'exit:1-2-3',
    'exit:1.5',
    'exit: 1',
    'oom:137',
    'exit,oom',
    'exit\n',
    ' exit',
  ];
  for (const entry of invalid) {
    test(`must not be ${JSON.stringify(entry)}`, () => assert.equal(isRetryOnEntry(entry), false));
  }
});

describe('retry_on', () => {
  test('null retries every failure, an empty list none', () => {
    fc.assert(
      fc.property(FAILURE, (failure) => {
        assert.equal(isRetried(null, failure), true);
        assert.equal(isRetried('', failure), false);
      }),
    );
  });

  test('with a cause retries the failures of this cause only', () => {
    for (const entry of RETRY_ON_CAUSES) {
      for (const cause of FAILURE_CAUSES) {
        assert.equal(isRetried(entry, { cause, exitCode: 1 }), cause === entry, `${entry}, ${cause}`);
      }
    }
  });

  test('with exit codes retries the failures that have one of them, whatever the cause', () => {
    fc.assert(
      fc.property(FAILURE, EXIT_CODE, EXIT_CODE, (failure, a, b) => {
        const [first, last] = [Math.min(a, b), Math.max(a, b)];
        const { exitCode } = failure;
        const within = exitCode !== null && exitCode >= first && exitCode <= last;
        assert.equal(isRetried(`exit:${first}-${last}`, failure), within);
        assert.equal(isRetried(`exit:${a}`, failure), exitCode === a);
      }),
    );
  });

  test('with several entries retries what any of them names', () => {
    const entries = fc.constantFrom(...RETRY_ON_CAUSES, 'exit:75', 'exit:100-110');
    fc.assert(
      fc.property(fc.array(entries, { minLength: 1 }), FAILURE, (list, failure) => {
        const expected = list.some((entry) => isRetried(entry, failure));
        assert.equal(isRetried(list.join(','), failure), expected);
      }),
    );
  });
});
