import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { describe, test } from 'vitest';
import { LogPrinter, logLine, type LogStyle } from './log-text.js';
import { Output } from '../terminal/output.js';

const ESC = '\u001b';
const line = (text: string) => ({
  cursor: 'c',
  line: 0,
  t: '2026-01-02T03:04:05.678Z',
  stream: 'stdout',
  text,
});

/** What batches of entries, and notes between them, print on a screen that shows both streams. */
async function printed(shown: LogStyle, ...batches: (object[] | string)[]): Promise<string> {
  return printedOn({ isTTY: false }, shown, ...batches);
}

async function printedOn(
  screen: { readonly isTTY: boolean },
  shown: LogStyle,
  ...batches: (object[] | string)[]
): Promise<string> {
  let text = '';
  const out = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  });
  const output = new Output(Object.assign(out, screen), out, { TERM: 'dumb' });
  const printer = new LogPrinter(shown, output);
  for (const batch of batches) {
    if (typeof batch === 'string') output.note(batch);
    else await printer.print(batch.map((entry) => JSON.stringify(entry)));
  }
  await printer.end();
  return text;
}

describe('a line of a log', () => {
  const style = { json: false, timestamps: false };

  test('is the text as it was printed when a program reads it', () => {
    const text = `${ESC}[2J${ESC}[31mred\u0007`;
    assert.equal(logLine(line(text), style, { isTerminal: false, colours: false }), text);
  });

  test('may colour a terminal and do nothing else to it', () => {
    const text = `${ESC}[31mred${ESC}[0m ${ESC}[2J${ESC}]0;title\u0007.`;
    const shown = logLine(line(text), style, { isTerminal: true, colours: true });
    assert.equal(shown, `${ESC}[31mred${ESC}[0m .${ESC}[0m`);
    const plain = logLine(line(text), style, { isTerminal: true, colours: false });
    assert.equal(plain, 'red .');
  });

  test('never looks like two lines', () => {
    const text = 'a\n2026-01-02T03:04:05.678Z forged\u2028forged\r';
    const forTerminal = logLine(line(text), style, { isTerminal: true, colours: false });
    assert.equal(forTerminal, String.raw`a\n2026-01-02T03:04:05.678Z forged\u2028forged`);
    const forProgram = logLine(line(text), style, { isTerminal: false, colours: false });
    assert.equal(forProgram, text.replace('\n', String.raw`\n`));
  });

  test('has its time in front when that is asked for', () => {
    const screen = { isTerminal: false, colours: false };
    assert.equal(logLine(line('hi'), { ...style, timestamps: true }, screen), '2026-01-02T03:04:05.678Z hi');
  });

  test('that is a gap says how much is missing', () => {
    const gap = { cursor: 'c', line: 1, gap: { lines: 7, bytes: null } };
    assert.equal(logLine(gap, style, { isTerminal: false, colours: false }), '[... 7 lines left out ...]');
  });

  test('ends before a piece of another line that a search found', async () => {
    const [first, found] = [line('foo A'), { ...line('foo B'), line: 3, continued: true }];
    assert.equal(await printed(style, [first, found]), 'foo A\nfoo B\n');
    assert.equal(await printed(style, [first], [found]), 'foo A\nfoo B\n');
  });

  test('ends before a note, and a piece that follows is a line', async () => {
    const [first, second] = [line('begun'), { ...line('and done'), line: 1, continued: true }];
    assert.equal(await printed(style, [first], 'note', 'two'), 'begun\nnote\ntwo\n');
    assert.equal(await printed(style, [first], 'note', [second]), 'begun\nnote\nand done\n');
  });

  test('has a bar in its last state on a terminal, also when it came in pieces', async () => {
    const [first, second] = [line('\r 10 %\r 20 %'), { ...line('\r 30 %'), line: 1, continued: true }];
    const text = await printed(style, [first, second]);
    assert.equal(text, `${first.text}${second.text}\n`, 'a program reads all that is stored');
    assert.equal(await printedOn({ isTTY: true }, style, [first, second]), ' 30 %\n');
    assert.equal(await printedOn({ isTTY: true }, style, [first], [second]), ' 20 %\n 30 %\n');
  });

  test('that comes in pieces is one line, also when the pieces come one after the other', async () => {
    const [first, second] = [line('x'.repeat(16_384)), { ...line('y'), line: 1, continued: true }];
    const other = { ...line('z'), line: 2, stream: 'stderr', continued: true };
    const whole = `${first.text}y\nz\n`;
    assert.equal(await printed(style, [first, second, other]), whole);
    assert.equal(await printed(style, [first], [second], [other]), whole);
    const time = `${first.t} `;
    assert.equal(await printed({ ...style, timestamps: true }, [first, second]), `${time}${first.text}y\n`);
    const json = await printed({ ...style, json: true }, [first, second]);
    assert.equal(json, `${JSON.stringify(first)}\n${JSON.stringify(second)}\n`);
  });
});
