import type { ContainerFile } from './runtime.js';

export type ShownFile = Pick<ContainerFile, 'path' | 'content' | 'mode'>;

/**
 * Why a file of a run cannot be executed, as a sentence; null: it can, or is not mentioned.
 * @param words that name the file which was to be executed
 */
export function fileHint(files: readonly ShownFile[], words: readonly string[]): string | null {
  for (const { path, content, mode } of files) {
    if (!words.some((word) => mentions(word, path))) continue;
    if ((mode & 0o111) === 0)
      return `The file '${path}' of the run has the mode ${octal(mode)}, without a bit to execute it: give it the mode 0555`;
    if (/^#![^\n]*\r(?:\n|$)/.test(content.toString()))
      return `The file '${path}' of the run has CR LF at the end of its first line, so that the name of its program ends with a CR: save it with LF alone`;
  }
  return null;
}

function mentions(word: string, path: string): boolean {
  const at = word.indexOf(path);
  return at >= 0 && !/[\w./-]/.test(word[at + path.length] ?? '');
}

function octal(mode: number): string {
  return mode.toString(8).padStart(4, '0');
}
