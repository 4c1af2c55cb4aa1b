import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { SettingsError } from '@longshore/common/settings/setting';
import { selectStrategy } from './scheduler.js';

describe('the strategy that SERVICE_SCHEDULER names', () => {
  const strategies = ['direct', 'fit', 'own', 'direct'].map((name) => ({ name }));

  it('is the one with this name, of the service or of an extension', () => {
    for (const name of ['fit', 'own']) assert.equal(selectStrategy(strategies, name).name, name);
  });

  for (const [name, problem] of [
    ['astrology', 'no strategy is'],
    ['direct', 'more than one strategy is'],
  ] as const) {
    it(`is refused when ${problem} named so`, () => {
      assert.throws(
        () => selectStrategy(strategies, name),
        new SettingsError([
          `SERVICE_SCHEDULER: ${problem} named '${name}'; there are: direct, fit, own, direct`,
        ]),
      );
    });
  }
});
