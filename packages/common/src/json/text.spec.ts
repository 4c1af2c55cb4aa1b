import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { clip, isCleanText, lengthWithin } from './text.js';

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

  it('are clipped between characters', () => {
    assert.equal(clip('abc', 3), 'abc');
    assert.equal(clip('abcd', 3), 'abc...');
    assert.equal(clip('ab😀😀', 3), 'ab...');
    assert.equal(clip('a\ud800', 5), 'a\ufffd');
  });
});
