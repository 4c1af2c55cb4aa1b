import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { rm, stat, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { errorText } from '@longshore/common/errors';
import { usageError } from '../cli-error.js';
import { listFolder, packFolder, type FolderEntries } from './pack-folder.js';

/** A local file, or a folder as the archive that is sent of it. */
export interface LocalSource {
  /** As the user names it. */
  readonly said: string;
  /** What a download is called. */
  readonly name: string;
  /** Of the bytes that are sent. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  /** What the folder has; undefined: it is a file. */
  readonly entries?: FolderEntries;
}

/**
 * Reads and packs local files and folders, hands them over, and removes the archives then.
 * @throws CliError that names what must not be sent or cannot be read
 */
export async function withSources<T>(
  paths: readonly string[],
  use: (sources: ReadonlyMap<string, LocalSource>) => Promise<T>,
): Promise<T> {
  const temporary = await mkdtemp(join(tmpdir(), 'longshore-'));
  try {
    const sources = new Map<string, LocalSource>();
    for (const said of new Set(paths)) {
      const archive = join(temporary, `${sources.size}.tar.gz`);
      sources.set(said, await readSource(said, archive));
    }
    return await use(sources);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

async function readSource(said: string, archive: string): Promise<LocalSource> {
  const found = await stat(said).catch((error: unknown) => {
    throw usageError(`cannot read ${said}: ${errorText(error)}`);
  });
  const last = basename(resolve(said)) || 'files';
  if (found.isDirectory()) {
    const entries = await listFolder(said);
    await packFolder(said, entries, archive);
    return { said, entries, name: `${last}.tar.gz`, path: archive, ...(await sumOf(archive)) };
  }
  if (!found.isFile()) throw usageError(`${said} is neither a file nor a folder`);
  const sum = await sumOf(said).catch((error: unknown) => {
    throw usageError(`cannot read ${said}: ${errorText(error)}`);
  });
  return { said, name: last, path: said, ...sum };
}

/** The number of bytes of a file, and their checksum. */
async function sumOf(path: string): Promise<Pick<LocalSource, 'bytes' | 'sha256'>> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of createReadStream(path)) {
    if (!Buffer.isBuffer(chunk)) continue;
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: hash.digest('hex') };
}
