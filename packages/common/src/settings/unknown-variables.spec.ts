import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { unknownVariables } from './unknown-variables.js';

describe('variables that no program reads', () => {
  it('are named with the nearest known one, without their values', () => {
    assert.deepEqual(
      unknownVariables({
        SERVICE_RUN_RETENTION_DAY: 's3cret',
        SERVICE_FEED_RETENTION_DYAS: '1',
        SERVICE_SOMETHING_ELSE_ALTOGETHER: 's3cret',
      }),
      [
        'SERVICE_FEED_RETENTION_DYAS is not a setting and has no effect; did you mean SERVICE_FEED_RETENTION_DAYS?',
        'SERVICE_RUN_RETENTION_DAY is not a setting and has no effect; did you mean SERVICE_RUN_RETENTION_DAYS?',
        'SERVICE_SOMETHING_ELSE_ALTOGETHER is not a setting and has no effect',
      ],
    );
  });

  it('are none of those of service, worker and containers, nor variables with another prefix', () => {
    assert.deepEqual(
      unknownVariables({
        SERVICE_PORT: '1',
        SERVICE_WORKER_TAGS: 'a',
        SERVICE_INPUT_PATH: '/x',
        TEAM_SERVICE_PORT: '1',
        PATH: '/bin',
      }),
      [],
    );
  });

  it('takes a name of any length', () => {
    assert.equal(unknownVariables({ [`SERVICE_${'X'.repeat(20_000)}`]: '' }).length, 1);
  });
});
