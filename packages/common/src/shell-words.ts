import { escapeUnsafe } from './json/text.js';

/** A list of words as bash would read it, on one line. */
export function shellWords(words: readonly string[]): string {
  return words.map(shellWord).join(' ');
}

function shellWord(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  const escaped = word.replaceAll(/[\\']/g, String.raw`\$&`);
  const shown = escapeUnsafe(escaped.replaceAll('\n', String.raw`\n`).replaceAll('\t', String.raw`\t`));
  return shown === escaped ? `'${word.replaceAll("'", `'\\''`)}'` : `$'${shown}'`;
}
