import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { LogLine } from '../runtime/runtime.js';
import { maskLines } from './mask-lines.js';
import { SecretMask } from './secret-mask.js';

async function shown(...lines: readonly LogLine[]): Promise<(readonly [string, number | undefined])[]> {
  async function* source(): AsyncGenerator<LogLine> {
    yield* lines;
  }
  const texts: (readonly [string, number | undefined])[] = [];
  for await (const { text, bytes } of maskLines(source(), SecretMask.of({ A: 'secret-value' })))
    texts.push([text, bytes?.end]);
  return texts;
}

describe('a masked line whose bytes are counted', () => {
  const first = { stream: 'stdout', part: 'start' } as const;
  const last = {
    stream: 'stdout',
    part: 'end',
    text: 'value\n'.trim(),
    bytes: { line: 10, end: 26 },
  } as const;

  it('ends where its text does, and not where a value that is held back does', async () => {
    assert.deepEqual(await shown({ ...first, text: 'aé secret-', bytes: { line: 10, end: 21 } }, last), [
      ['aé ', 14],
      ['***', 21],
      ['', 26],
    ]);
  });

  it('is held back whole while its bytes cannot be told from its text', async () => {
    assert.deepEqual(await shown({ ...first, text: 'a\ufffd secret-', bytes: { line: 10, end: 20 } }, last), [
      ['a\ufffd ***', 20],
      ['', 26],
    ]);
  });
});
