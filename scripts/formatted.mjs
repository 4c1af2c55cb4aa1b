import { readFile } from 'node:fs/promises';
import { format } from 'oxfmt';

const OPTIONS = JSON.parse(await readFile(new URL('../.oxfmtrc.json', import.meta.url), 'utf8'));

/**
 * A text as `npm run format` writes it.
 * @param {string} path tells the language
 * @throws Error when it cannot be read in that language
 */
export async function formatted(path, text) {
  const { code, errors } = await format(path, text, OPTIONS);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0].message}`);
  return code;
}
