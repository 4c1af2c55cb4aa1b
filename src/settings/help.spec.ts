import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { answerWithoutStarting, helpText } from './help.js';
import { SETTING_KEYS } from './setting-keys.js';

describe('help', () => {
  it('names every flag and variable with its default', () => {
    const text = helpText();
    for (const key of SETTING_KEYS) {
      assert.ok(text.includes(key.env), key.env);
      assert.ok(key.flag === undefined || text.includes(`--${key.flag}`), key.flag);
      assert.ok(key.default === undefined || text.includes(`Default: ${key.default}.`), key.env);
    }
  });

  it('is asked for by --help and -h, whatever else is wrong', () => {
    assert.equal(answerWithoutStarting(['--help']), helpText());
    assert.equal(answerWithoutStarting(['--nope', '-h', '--version']), helpText());
  });

  it('gives the version of the package', () => {
    assert.match(answerWithoutStarting(['--version']) ?? '', /^\d+\.\d+\.\d+\n$/);
  });

  it('is silent when the service is to start', () => {
    assert.equal(answerWithoutStarting(['--port', '1']), undefined);
  });
});
