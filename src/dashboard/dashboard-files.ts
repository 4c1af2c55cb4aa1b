import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, extname, join, sep } from 'node:path';

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

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
};

export type Encoding = (typeof ENCODINGS)[number][0];

export interface DashboardFile {
  readonly mediaType: string;
  /** Whether its name holds a hash of its content, so that it never changes. */
  readonly isHashed: boolean;
  /** Strong for each encoding: the hash of the plain content, in quotes, with the encoding's name. */
  etag(encoding: Encoding): string;
  /** Its content by encoding; `identity` is always there. */
  readonly bodies: ReadonlyMap<Encoding, Buffer>;
}

/** The files of the dashboard by their paths below it, such as `assets/index-x.js`. */
export type DashboardFiles = ReadonlyMap<string, DashboardFile>;

/**
 * Reads the built dashboard into memory (less than a megabyte), so that a later build does not affect the running service
 * and no other file can be served.
 * @returns no file when the dashboard is not built
 */
export async function loadDashboard(folder: string = DASHBOARD_FOLDER): Promise<DashboardFiles> {
  if (!existsSync(folder)) return new Map();
  const entries = await readdir(folder, { recursive: true });
  const names = new Set(entries.map((path) => path.split(sep).join('/')));
  const files = new Map<string, DashboardFile>();
  for (const name of names) {
    const mediaType = MEDIA_TYPES[extname(name)];
    if (mediaType === undefined) continue;
    const bodies = new Map<Encoding, Buffer>();
    for (const [encoding, extension] of ENCODINGS) {
      if (names.has(name + extension)) bodies.set(encoding, await readFile(join(folder, name + extension)));
    }
    const plain = bodies.get('identity') ?? '';
    const hash = createHash('sha256').update(plain).digest('base64url').slice(0, 22);
    const etag = (encoding: Encoding): string => `"${hash}-${encoding}"`;
    files.set(name, { mediaType, isHashed: name.startsWith('assets/'), etag, bodies });
  }
  return files;
}
