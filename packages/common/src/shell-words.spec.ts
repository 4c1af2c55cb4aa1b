import assert from 'node:assert/strict';
import { test } from 'vitest';
import { shellWords } from './shell-words.js';

test('words are shown as a shell would read them', () => {
  assert.equal(shellWords(['sh', '-c', "echo 'a b'", '']), `sh -c 'echo '\\''a b'\\''' ''`);
  assert.equal(shellWords(['a  b', '$(x) \\', '日本']), String.raw`'a  b' '$(x) \' '日本'`);
  assert.equal(shellWords(["a\nb\t'\\", '\u001b[0m']), String.raw`$'a\nb\t\'\\' $'\u001b[0m'`);
});
