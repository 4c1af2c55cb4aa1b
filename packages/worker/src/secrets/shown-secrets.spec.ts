import assert from 'node:assert/strict';
import { test } from 'vitest';
import type { LogLine } from '../runtime/runtime.js';
import { maskLines } from './mask-lines.js';
import { SecretMask } from './secret-mask.js';

async function* parts(start: string, end: string): AsyncGenerator<LogLine> {
  yield { stream: 'stdout', text: start, part: 'start' };
  yield { stream: 'stdout', text: end, part: 'end' };
}

test('replaces a value that comes together when a terminal shows the text, and keeps colours that end behind it', async () => {
  const mask = new SecretMask(['hunter22', 'a"b\\c']);
  for (const [text, masked] of Object.entries({
    'see \u001b[31mhunt\u001b[0;1mer22\u001b[0m!': 'see ***\u001b[0m!',
    'hu\u001b[Knt\u001b]0;title\u0007er\u001b]8;;http://x\u001b\\22': '***',
    'hunt\u0000er\u0085\u000b22': '***',
    'hunt\u009b1mer22': '***',
    'h\bhu\bun\bnt\bte\ber\br2\b22\b2.': '***.',
    'hunt😀\ber22': '***',
    '\u001b[1ma\u001b[0m\\"b\u001b[1m\\\\c\u001b[0m': '***\u001b[0m',
    'hunt\u001b[0m er22 hunt\rer22': 'hunt\u001b[0m er22 hunt\rer22',
    '\u001b]0;a\\"b\\\\c\u0007': '\u001b]0;***\u0007',
  })) {
    assert.equal(mask.text(text), masked, JSON.stringify(text));
    assert.deepEqual({ ...(await mask.json({ text })) }, { text: masked }, JSON.stringify(text));
  }
});

test('finds what a terminal shows as a value of a line that is cut anywhere, also in an escape sequence', async () => {
  const mask = new SecretMask(['hunter22']);
  const line = 'see \u001b[31mhunt\u001b[0;1mer\u001b[0m22!';
  for (let cut = 1; cut < line.length; cut++) {
    const shown: string[] = [];
    for await (const { text } of maskLines(parts(line.slice(0, cut), line.slice(cut)), mask))
      shown.push(text);
    assert.equal(shown.join(''), 'see ***!', `cut at ${cut}`);
  }
});
