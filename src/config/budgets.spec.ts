import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { SettingsError } from '@longshore/common/settings/setting';
import { Budgets } from './budgets.js';
import { settingKeysOf } from './setting-decorators.js';
import { loadSettings } from './settings.module.js';

describe('the settings of budgets', () => {
  for (const { field, env, flag, allowed, default: preset } of settingKeysOf(Budgets)) {
    it(`take the default of ${env}, its smallest value and its largest one, and no other`, () => {
      const bounds = [...allowed.matchAll(/\d+/g)].map(([text]) => Number(text));
      assert.equal(loadSettings([], {})[field], Number(preset));
      const [least = 0, most = 0] = bounds;
      for (const value of [allowed.includes('greater than') ? least + 0.001 : least, most]) {
        assert.equal(loadSettings([], { [env]: String(value) })[field], value);
        assert.equal(loadSettings([`--${flag}`, String(value)], {})[field], value);
      }
      for (const text of [String(least - 1), String(most + 1), '1mb']) {
        assert.throws(
          () => loadSettings([], { [env]: text }),
          new SettingsError([`${env} must be ${allowed}, got "${text}"`]),
        );
      }
    });
  }
});
