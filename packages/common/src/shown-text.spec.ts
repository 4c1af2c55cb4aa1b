import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, it } from 'vitest';
import { colouredLine, lastState, oneLine, searchedText, shownLine } from './shown-text.js';

const ESC = '\u001b';

interface Case {
  readonly title: string;
  readonly pieces: readonly string[];
  /** What is kept of each piece. */
  readonly kept: readonly string[];
  /** What a terminal shows of the line. */
  readonly shown: string;
}

const CASES: readonly Case[] = JSON.parse(
  readFileSync(new URL('shown-text.cases.json', import.meta.url), 'utf8'),
);

/** Texts in which what a terminal acts on is as frequent as letters. */
const TEXTS = fc
  .array(
    fc.constantFrom(
      'a',
      '0;',
      '[',
      ']',
      'm',
      '\r',
      '\u001b',
      '\u001b[31m',
      '\u001b[A',
      '\b',
      '\u0007',
      '\u009b',
    ),
  )
  .map((parts) => parts.join(''));

describe('a line of a log', () => {
  it.each(CASES)('is kept and shown as a terminal does: $title', ({ pieces, kept, shown }) => {
    assert.deepEqual(
      pieces.map((piece, index) => lastState(piece, index > 0)),
      kept,
    );
    assert.equal(shownLine(pieces.join('')), shown);
    assert.equal(shownLine(kept.join('')), shown);
  });

  it('is kept as it is when it was kept before, and shown alike', () => {
    fc.assert(
      fc.property(TEXTS, fc.boolean(), (text, isBegun) => {
        const kept = lastState(text, isBegun);
        assert.equal(lastState(kept, isBegun), kept);
        assert.equal(shownLine(kept), shownLine(text));
      }),
    );
  });

  it('has no text together that was apart when it was printed: no value of a secret comes about that was not masked', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', 'c', '\r')), fc.boolean(), (parts, isBegun) => {
        const text = parts.join('');
        for (const stretch of lastState(text, isBegun).split('\r')) assert.ok(text.includes(stretch));
      }),
    );
  });

  it('keeps its colours and nothing else that a terminal acts on', () => {
    assert.equal(
      colouredLine('\u001b]0;t\u0007\u001b[31mred\u001b[2J\u001b[38:5:1m\b!'),
      '\u001b[31mre!\u001b[0m',
    );
    fc.assert(
      fc.property(TEXTS, (text) => {
        const shown = colouredLine(text);
        const plain = shown.replaceAll(new RegExp(String.raw`${ESC}\[[\d;]*m`, 'g'), '');
        assert.doesNotMatch(plain, /[^\P{Cc}\t\n]/u);
      }),
    );
  });

  it('is searched without escape sequences, in each of its states', () => {
    const text = '\u001b[31mERROR\u001b[0m: disk\r\u001b]0;t\u0007full';
    assert.equal(searchedText(text), 'ERROR: disk\nfull');
  });

  it('takes a time that grows with its length only', () => {
    for (const unit of ['\u009d', '\u001b]', '\u001b[1', '\r\u001b[A', '\u001b[1;\r', 'a\b', '\u001bP;\r'])
      assert.ok(shownLine(unit.repeat(50_000)).length <= 200_000);
  });
});

describe('a text on one line', () => {
  it('has no escape sequences, control characters, line ends and marks of direction', () => {
    const text = ' a\u001b[31mred\u001b[0m\r\nb\u0007\u2028c\u202e\td \u001b]0;t\u0007e\ud800';
    assert.equal(oneLine(text), 'ared b c d e\ufffd');
  });
});
