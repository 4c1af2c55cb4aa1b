import 'reflect-metadata';
import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { describe, it } from 'vitest';
import { SettingsError } from '@longshore/common/settings/setting';
import { loadSettings } from './settings.module.js';

const KEY = Buffer.alloc(32, 'first').toString('base64');
const OTHER = Buffer.alloc(32, 'other').toString('base64');

describe('SERVICE_SECRETS_KEY', () => {
  it('is a list of keys of 32 bytes in Base64', () => {
    const { secretsKeys } = loadSettings([], { SERVICE_SECRETS_KEY: `${KEY} , ${OTHER}` });
    assert.deepEqual(
      secretsKeys.map((key) => key.export().toString('base64')),
      [KEY, OTHER],
    );
  });

  it('is not in any text that the settings are made into', () => {
    const settings = loadSettings([], { SERVICE_SECRETS_KEY: KEY });
    const text = [JSON.stringify(settings), inspect(settings, { depth: 9, showHidden: true })].join('\n');
    for (const form of [KEY, 'firstfirst', Buffer.from('first').toString('hex')]) {
      assert.ok(!text.includes(form), form);
    }
  });

  for (const [value, entry] of [
    ['hunter2', 1],
    [`${KEY},hunter2`, 2],
    [`${KEY},`, 2],
    [KEY.slice(0, -1), 1],
    [Buffer.alloc(31, 'hunter2').toString('base64'), 1],
    [Buffer.alloc(33, 'hunter2').toString('base64'), 1],
    [Buffer.alloc(32, 'hunter2').toString('hex'), 1],
    [`${KEY.slice(0, -2)}h=`, 1],
  ] as const) {
    it(`with a wrong key at entry ${entry} (${value.length} characters) is refused without being shown`, () => {
      assert.throws(
        () => loadSettings([], { SERVICE_SECRETS_KEY: value }),
        (error) => {
          assert.ok(error instanceof SettingsError);
          assert.deepEqual(error.problems, [
            'SERVICE_SECRETS_KEY must be a comma-separated list of keys, each 32 bytes in Base64: ' +
              `entry ${entry} is not 32 bytes in Base64 (the value is not shown)`,
          ]);
          return true;
        },
      );
    });
  }
});
