import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'vitest';
import { foreignWord, FOREIGN_WORDS } from './foreign-words.js';

test('each word has one place, however it is written', () => {
  const all = FOREIGN_WORDS.flatMap(({ there }) => there);
  for (const word of all) {
    assert.ok(foreignWord(word)?.there.includes(word), word);
    assert.equal(foreignWord(word.toUpperCase()), foreignWord(word));
  }
  assert.equal(new Set(all.map((word) => word.toLowerCase())).size, all.length);
  assert.equal(foreignWord('mem-limit')?.field, 'constraints.ram_mb');
  assert.equal(foreignWord('--cpus-per-task')?.field, 'constraints.cpu');
  assert.equal(foreignWord('nope'), undefined);
});

test('docs/from-other-systems.md has the same table', async () => {
  const page = await readFile(new URL('../../../docs/from-other-systems.md', import.meta.url), 'utf8');
  const [, section = ''] = page.split('## Words of other systems\n');
  const rows = [...(section.split('\n## ')[0]?.matchAll(/^\| (`.*?) *\| (.*?) *\|$/gm) ?? [])];
  const told = rows.map(([, there, here]) => [there, here]);
  const expected = FOREIGN_WORDS.map(({ there, field, note }) => [
    there.map((word) => `\`${word}\``).join(', '),
    [field === null ? '' : `\`${field}\`${note === undefined ? '' : ':'}`, note ?? ''].join(' ').trim(),
  ]);
  assert.deepEqual(told, expected);
});
