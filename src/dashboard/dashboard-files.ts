import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, sep } from 'node:path';
import { isServable, staticFile, type Encoding, type StaticFile } from '../common/http/server/static-file.js';

/** The built dashboard. */
export const DASHBOARD_FOLDER = join(
  dirname(createRequire(import.meta.url).resolve('@longshore/dashboard/package.json')),
  'dist',
);

/** Encodings of files, smallest first, with their extensions. */
const ENCODINGS = [
  ['br', '.br'],
  ['gzip', '.gz'],
  ['identity', ''],
] as const;

/** The files of the dashboard by their paths below it, such as `assets/index-x.js`. */
export type DashboardFiles = ReadonlyMap<string, StaticFile>;

/**
 * Reads the built dashboard into memory (less than a megabyte), so that a later build does not affect the running service
 * and no other file can be served.
 * @returns no file when the dashboard is not built
 */
export async function loadDashboard(folder: string = DASHBOARD_FOLDER): Promise<DashboardFiles> {
  if (!existsSync(folder)) return new Map();
  const entries = await readdir(folder, { recursive: true });
  const names = new Set(entries.map((path) => path.split(sep).join('/')));
  const files = new Map<string, StaticFile>();
  for (const name of names) {
    if (!isServable(name)) continue;
    const bodies = new Map<Encoding, Buffer>();
    for (const [encoding, extension] of ENCODINGS) {
      if (names.has(name + extension)) bodies.set(encoding, await readFile(join(folder, name + extension)));
    }
    // The names of assets hold a hash of their content, so that they never change.
    const isHashed = name.startsWith('assets/');
    files.set(name, staticFile(name, bodies, isHashed ? 'public, max-age=31536000, immutable' : undefined));
  }
  return files;
}
