import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { refusalOf, refusalText } from './failures.js';
import { logLine } from './log-text.js';
import { progressLine } from './output.js';

const ESC = '\u001b';
const line = (text: string): string =>
  JSON.stringify({ cursor: 'c', line: 0, t: '2026-01-02T03:04:05.678Z', stream: 'stdout', text });

describe('a line of a log', () => {
  const style = { json: false, timestamps: false };

  test('is the text as it was printed when a program reads it', () => {
    const text = `${ESC}[2J${ESC}[31mred\u0007`;
    assert.equal(logLine(line(text), style, { isTerminal: false, colours: false }), text);
  });

  test('may colour a terminal and do nothing else to it', () => {
    const text = `${ESC}[31mred${ESC}[0m ${ESC}[2J${ESC}]0;title\u0007`;
    const shown = logLine(line(text), style, { isTerminal: true, colours: true });
    assert.equal(shown, `${ESC}[31mred${ESC}[0m \ufffd[2J\ufffd]0;title\ufffd${ESC}[0m`);
    const plain = logLine(line(text), style, { isTerminal: true, colours: false });
    assert.equal(plain, 'red \ufffd[2J\ufffd]0;title\ufffd');
  });

  test('has its time in front, or is JSON, when that is asked for', () => {
    const screen = { isTerminal: false, colours: false };
    assert.equal(logLine(line('hi'), { ...style, timestamps: true }, screen), '2026-01-02T03:04:05.678Z hi');
    assert.equal(logLine(line('hi'), { ...style, json: true }, screen), line('hi'));
  });

  test('that is a gap says how much is missing', () => {
    const gap = JSON.stringify({ cursor: 'c', line: 1, gap: { lines: 7, bytes: null } });
    assert.equal(logLine(gap, style, { isTerminal: false, colours: false }), '[... 7 lines left out ...]');
  });
});

describe('the progress line', () => {
  const progress = { state: 'RUNNING', progress: 50, detail: 'attempt 1 of 3 on w-1' };

  test('has a bar that is as full as the run is done', () => {
    assert.equal(
      progressLine(progress, 100, false),
      'RUNNING   ############............  50 %  attempt 1 of 3 on w-1',
    );
  });

  test('never wraps', () => {
    for (const columns of [1, 10, 30, 45, 60]) {
      const text = stripVTControlCharacters(progressLine(progress, columns, true));
      assert.equal(text.length, Math.min(columns - 1, 65), String(columns));
    }
  });
});

describe('a refusal', () => {
  test('is one line with every error', () => {
    const body = { detail: 'Request validation failed', errors: ['a must be b', 'c must\nbe d'] };
    assert.equal(refusalText(body), 'Request validation failed: a must be b; c must be d');
  });

  test('ends with the code of its kind', () => {
    const codes = [400, 404, 401, 403, 503].map(
      (status) => refusalOf({ detail: 'no' }, { status }, 'http://host').exitCode,
    );
    assert.deepEqual(codes, [1, 1, 3, 3, 3]);
    assert.equal(refusalOf('<html>', { status: 404 }, 'http://host').exitCode, 3);
  });
});
