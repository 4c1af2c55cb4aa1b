/** Whether all are names of files and folders, and none leads elsewhere. */
export function arePlainParts(parts: readonly string[]): boolean {
  return parts.every((part) => part !== '' && part !== '.' && part !== '..');
}

/** The folders of a relative path, the outermost first. */
export function foldersOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1);
  return parts.map((_, depth) => parts.slice(0, depth + 1).join('/'));
}

/** Whether a path stands for those that match it: it has `*` or `?`. */
export function isPattern(path: string): boolean {
  return /[*?]/.test(path);
}
