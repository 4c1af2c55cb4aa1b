import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import fc from 'fast-check';
import type { LogLine } from '../runtime/runtime.js';
import { keptText, LogTail } from './log-tail.js';

/** The last lines after lines, and parts of lines. */
function tailOf(...parts: readonly (readonly [LogLine['stream'], string, LogLine['part']?])[]): string[] {
  const tail = new LogTail();
  for (const [stream, text, part] of parts)
    tail.add(stream, keptText(text, part === 'rest' || part === 'end'), part);
  return tail.lines();
}

describe('the last lines of a log', () => {
  test('are the newest, in their order', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), fc.integer({ min: 1, max: 25 }), (lines, size) => {
        const tail = new LogTail(size);
        for (const line of lines) tail.add('stdout', line, undefined);
        assert.deepEqual(tail.lines(), lines.slice(-size));
      }),
    );
  });

  test('have the order of the log when a line of the other stream comes in between', () => {
    const parts = [
      ['stdout', 'step 1 ', 'start'],
      ['stderr', 'warning'],
      ['stdout', 'done', 'end'],
      ['stdout', 'step 2 ', 'start'],
      ['stdout', 'done', 'end'],
    ] as const;
    assert.deepEqual(tailOf(...parts), ['step 1 ', 'warning', 'done', 'step 2 done']);
  });

  test('have a progress bar once, in its last state, whatever came in between', () => {
    const parts = [
      ['stderr', ' 10 %\r 20 %', 'start'],
      ['stdout', 'epoch 1'],
      ['stderr', '\r 30 %', 'rest'],
      ['stdout', 'epoch 2'],
      ['stderr', '\r 40 %\r', 'rest'],
      ['stderr', ' 50 %\u001b[K fatal: licence expired', 'end'],
      ['stdout', 'epoch 3'],
    ] as const;
    const lines = ['epoch 1', 'epoch 2', ' 50 % fatal: licence expired', 'epoch 3'];
    assert.deepEqual(tailOf(...parts), lines);
  });

  test('have the end of a line that is long', () => {
    const part = 'x'.repeat(65_536);
    const [line = ''] = tailOf(
      ['stderr', part, 'start'],
      ['stderr', part, 'rest'],
      ['stderr', 'fatal', 'end'],
    );
    assert.ok(line.endsWith('xfatal') && line.length < 10_000);
  });

  test('do not have a line whose parts are found to be an event', () => {
    const tail = new LogTail();
    tail.add('stdout', 'a', undefined);
    tail.add('stdout', '{"type":', 'start');
    tail.add('stderr', 'b', undefined);
    tail.add('stdout', '"X"}', 'end');
    tail.dropLine('stdout');
    assert.deepEqual(tail.lines(), ['a', 'b']);
  });
});
