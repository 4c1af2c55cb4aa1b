import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, extname, join, sep } from 'node:path';

/** Where the build puts the dashboard: `dist` of its package. */
export const DASHBOARD_FOLDER = join(
  dirname(createRequire(import.meta.url).resolve('@longshore/dashboard/package.json')),
  'dist',
);

/** The encodings in which a file may be kept, smallest first, and the endings of their files. */
const ENCODINGS = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const;

const MEDIA_TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
};

/** The encoding of an answer's body. */
export type Encoding = (typeof ENCODINGS)[number][0] | 'identity';

/** A file of the dashboard, whole. */
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
 * Reads the built dashboard into memory: less than a megabyte, which a later build cannot pull from under the running
 * service. Only what is in the answer can ever be served.
 * @returns no file when the dashboard has not been built
 */
export async function loadDashboard(folder: string = DASHBOARD_FOLDER): Promise<DashboardFiles> {
  if (!existsSync(folder)) return new Map();
  const entries = await readdir(folder, { recursive: true });
  const names = new Set(entries.map((path) => path.split(sep).join('/')));
  const files = [...names].flatMap((name) => {
    const mediaType = MEDIA_TYPES[extname(name)];
    return mediaType === undefined ? [] : [readOne(folder, names, name, mediaType)];
  });
  return new Map(await Promise.all(files));
}

async function readOne(
  folder: string,
  names: ReadonlySet<string>,
  name: string,
  mediaType: string,
): Promise<[string, DashboardFile]> {
  const plain = await readFile(join(folder, name));
  const bodies = new Map<Encoding, Buffer>();
  for (const [encoding, ending] of ENCODINGS) {
    if (names.has(name + ending)) bodies.set(encoding, await readFile(join(folder, name + ending)));
  }
  bodies.set('identity', plain);
  const hash = createHash('sha256').update(plain).digest('base64url').slice(0, 22);
  const etag = (encoding: Encoding): string => `"${hash}-${encoding}"`;
  return [name, { mediaType, isHashed: name.startsWith('assets/'), etag, bodies }];
}
