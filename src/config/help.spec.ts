import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { answerWithoutStarting, helpText } from '@longshore/common/settings/help';
import { SETTING_KEYS } from './settings.js';

const USAGE = 'npm start -- [flags]';

describe('help', () => {
  it('names every flag and variable with its default', () => {
    const text = helpText(USAGE, SETTING_KEYS);
    assert.ok(text.startsWith(`Usage: ${USAGE}\n`));
    for (const key of SETTING_KEYS) {
      assert.ok(text.includes(key.env), key.env);
      assert.ok(key.flag === undefined || text.includes(`--${key.flag}`), key.flag);
      assert.ok(text.includes(`Default: ${key.default ?? 'unset'}.`), key.env);
    }
  });

  it('is asked for by --help and -h, whatever else is wrong', () => {
    const text = helpText(USAGE, SETTING_KEYS);
    assert.equal(answerWithoutStarting(USAGE, SETTING_KEYS, ['--help']), text);
    assert.equal(answerWithoutStarting(USAGE, SETTING_KEYS, ['--nope', '-h', '--version']), text);
  });

  it('gives the version of the package', () => {
    assert.match(answerWithoutStarting(USAGE, SETTING_KEYS, ['--version']) ?? '', /^\d+\.\d+\.\d+\n$/);
  });

  it('is silent when the service is to start', () => {
    assert.equal(answerWithoutStarting(USAGE, SETTING_KEYS, ['--port', '1']), undefined);
  });
});
