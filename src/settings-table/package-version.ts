import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder of the package that this file belongs to: the nearest one above it with a package.json. */
export function packageFolder(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json')) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}

/** Version in the package.json of the package; `unknown` without one. */
export function packageVersion(): string {
  const manifest = join(packageFolder(), 'package.json');
  if (!existsSync(manifest)) return 'unknown';
  const content: unknown = JSON.parse(readFileSync(manifest, 'utf8'));
  const known = typeof content === 'object' && content !== null && 'version' in content;
  return known ? String(content.version) : 'unknown';
}
