import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import { LogPosition } from './log-position.js';

/** Reads the connections one after the other, each in chunks of `size` bytes. */
function read(connections: readonly string[], size = 1_000_000): string {
  const position = new LogPosition();
  const parts: Buffer[] = [];
  for (const text of connections) {
    position.reconnect();
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += size)
      parts.push(...position.take(bytes.subarray(at, at + size)));
  }
  return Buffer.concat(parts).toString();
}

const at = (second: number, nanos: number) =>
  `2026-11-23T22:00:${String(second).padStart(2, '0')}.${String(nanos).padStart(9, '0')}Z`;

describe('the position in a log', () => {
  it('hands on lines without their times', () => {
    assert.equal(read([`${at(1, 5)} one\n${at(1, 6)} two three\n${at(2, 0)} \n`]), 'one\ntwo three\n\n');
  });

  it('continues from the second of the newest line', () => {
    const position = new LogPosition();
    assert.equal(position.since, undefined);
    position.reconnect();
    assert.equal([...position.take(Buffer.from(`${at(3, 999_999_999)} a\n`))].join(''), 'a\n');
    assert.equal(position.since, '2026-11-23T22:00:03Z');
  });

  it('reads times with an offset', () => {
    const position = new LogPosition();
    assert.equal([...position.take(Buffer.from('2026-11-23T23:30:00.5+01:30 a\n'))].join(''), 'a\n');
    assert.equal(position.since, '2026-11-23T22:00:00Z');
  });

  it('drops repeated lines, also when several have one time', () => {
    const lines = [
      `${at(1, 1)} a\n`,
      `${at(2, 1)} b\n`,
      `${at(2, 1)} c\n`,
      `${at(2, 1)} d\n`,
      `${at(2, 2)} e\n`,
    ];
    const [, ...fromSecond2] = lines;
    assert.equal(read([lines.slice(0, 3).join(''), fromSecond2.join('')]), 'a\nb\nc\nd\ne\n');
  });

  it('keeps a line of an older time that was not there before', () => {
    assert.equal(read([`${at(2, 9)} late\n`, `${at(2, 9)} late\n${at(2, 3)} early\n`]), 'late\nearly\n');
  });

  it('continues an unfinished line', () => {
    assert.equal(read([`${at(1, 1)} ab`, `${at(1, 1)} abcd\n${at(1, 2)} e\n`]), 'abcd\ne\n');
  });

  it('ends an unfinished line that is gone, as after a rotation', () => {
    assert.equal(read([`${at(1, 1)} ab`, `${at(5, 1)} next\n`]), 'ab\nnext\n');
  });

  it('drops what the node writes into the log', () => {
    const said = 'rpc error: code = Unknown desc = Error: No such container: 0123456789abcdef\n';
    assert.equal(read([`${at(1, 1)} a\n${said}`]), 'a\n');
    assert.equal(read([`${at(1, 1)} a\nfailed\n${at(1, 2)} b\n`]), 'a\nb\n');
  });

  it('removes the times between the pieces of a long line', () => {
    const piece = 'x'.repeat(16_384);
    const log = `${at(1, 1)} ${piece}${at(1, 2)} ${piece}${at(1, 3)} rest of it\n${at(1, 4)} next\n`;
    assert.equal(read([log]), `${piece}${piece}rest of it\nnext\n`);
    assert.equal(read([log], 7), `${piece}${piece}rest of it\nnext\n`);
  });

  it('keeps a long line that has no times inside', () => {
    const text = `${'y'.repeat(16_384)}2026 is no time ${'z'.repeat(40_000)} end`;
    assert.equal(read([`${at(1, 1)} ${text}\n${at(1, 2)} next\n`]), `${text}\nnext\n`);
    assert.equal(read([`${at(1, 1)} ${text}\n`], 11), `${text}\n`);
  });

  it('gives every line once, wherever connections break and bytes are cut', () => {
    const line = fc.record({ second: fc.nat(3), nanos: fc.nat(2), text: fc.stringMatching(/^[a-z ]{0,6}$/) });
    fc.assert(
      fc.property(
        fc.array(line, { maxLength: 12 }),
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 }),
        fc.integer({ min: 1, max: 9 }),
        (unordered, breaks, size) => {
          const lines = unordered.toSorted((a, b) => a.second - b.second);
          const stored = lines.map(({ second, nanos, text }) => ({
            second,
            line: `${at(second, nanos)} ${text}\n`,
          }));
          const position = new LogPosition();
          const parts: Buffer[] = [];
          for (const share of [...breaks, 1]) {
            const since = position.since === undefined ? 0 : Number(position.since.slice(17, 19));
            const log = stored.filter(({ second }) => second >= since).map((each) => each.line);
            const bytes = Buffer.from(log.join(''));
            const end = Math.round(bytes.length * share);
            position.reconnect();
            for (let from = 0; from < end; from += size)
              parts.push(...position.take(bytes.subarray(from, Math.min(end, from + size))));
          }
          assert.equal(Buffer.concat(parts).toString(), lines.map(({ text }) => `${text}\n`).join(''));
        },
      ),
    );
  });
});
