import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Version in the package.json that this file belongs to. */
export function packageVersion(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder);
    if (parent === folder) {
      return 'unknown';
    }
    folder = parent;
  }
  const content: unknown = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const known = typeof content === 'object' && content !== null && 'version' in content;
  return known ? String(content.version) : 'unknown';
}
