import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The folder of the package that `folder` belongs to: itself, or the nearest one above it, with a package.json. */
export function packageFolder(folder: string): string {
  while (!existsSync(join(folder, 'package.json')) && dirname(folder) !== folder) folder = dirname(folder);
  return folder;
}

/** Version of Longshore, which all its packages share; `unknown` without a package.json. */
export function packageVersion(): string {
  const manifest = join(packageFolder(import.meta.dirname), 'package.json');
  if (!existsSync(manifest)) return 'unknown';
  const content: unknown = JSON.parse(readFileSync(manifest, 'utf8'));
  const known = typeof content === 'object' && content !== null && 'version' in content;
  return known ? String(content.version) : 'unknown';
}
