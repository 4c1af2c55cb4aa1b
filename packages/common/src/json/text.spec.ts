import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import * as fc from 'fast-check';
import {
  clip,
  escapeUnsafe,
  isCleanText,
  lengthWithin,
  NO_CONTROL_CHARACTERS,
  NO_CONTROLS_BUT_LINES,
} from './text.js';

describe('texts', () => {
  it('are clean without NUL characters and lone surrogates', () => {
    for (const text of ['', 'a', 'é€😀', '\u0001\r\n']) assert.equal(isCleanText(text), true);
    for (const text of ['\0', 'a\0', '\ud800', 'a\udc00b', '\udc00\ud800'])
      assert.equal(isCleanText(text), false);
  });

  it('are measured in code points', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.nat(20), fc.nat(20), (text, min, max) => {
        const points = Array.from(text).length;
        assert.equal(lengthWithin(text, min, max), points >= min && points <= max);
      }),
    );
    assert.equal(lengthWithin('😀😀', 2, 2), true);
    assert.equal(lengthWithin('abc', 0, Infinity), true);
  });

  it('are escaped so that they cannot control a terminal, forge a line or change the direction of text', () => {
    const unsafe = '\u0000\u0007\r\u001b\u007f\u0085\u009b\u061c\u200e\u200f\u2028\u2029\u202e\u2066';
    const escaped = Array.from(unsafe, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
    assert.equal(escapeUnsafe(`a\t${unsafe}\nb`), `a\t${escaped}\nb`);
    for (const harmless of ['plain', 'é€😀', '\u200d', '']) assert.equal(escapeUnsafe(harmless), harmless);
  });

  it('on one line that people see have no end of a line, nothing that controls a terminal or the direction of text', () => {
    const lines = ['\t', '\n', '\r', '\u2028', '\u2029'];
    const hidden = ['\0', '\u001b', '\u007f', '\u0085', '\u061c', '\u200e', '\u200f', '\u202a', '\u202e'];
    for (const character of [...lines, ...hidden, '\u2066', '\u2069']) {
      assert.equal(NO_CONTROL_CHARACTERS.test(`a${character}b`), false);
      assert.equal(NO_CONTROLS_BUT_LINES.test(`a${character}b`), lines.includes(character));
    }
    for (const text of ['', 'a b', '\u200c\u200d\u2027\u202f\u2065\u206a', 'é€😀'])
      assert.equal(NO_CONTROL_CHARACTERS.test(text), true);
  });

  it('keep their meaning as JSON when they are escaped', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string({ unit: 'binary' }), (value, text) => {
        const json = JSON.stringify([value, text]);
        assert.equal(JSON.stringify(JSON.parse(escapeUnsafe(json))), json);
      }),
    );
  });

  it('are clipped between characters', () => {
    assert.equal(clip('abc', 3), 'abc');
    assert.equal(clip('abcd', 3), 'abc...');
    assert.equal(clip('ab😀😀', 3), 'ab...');
    assert.equal(clip('a\ud800', 5), 'a\ufffd');
  });
});
