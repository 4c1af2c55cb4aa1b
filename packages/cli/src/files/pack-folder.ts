import { createReadStream, createWriteStream } from 'node:fs';
import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import dockerignore from '@balena/dockerignore';
import { errorCode, errorText } from '@longshore/common/errors';
import { pack, type Pack, type PackedHeader } from 'tar-stream';
import { usageError } from '../cli-error.js';

/** Files, folders and links of a folder that is sent. */
const MOST_ENTRIES = 20_000;
/** Links that are followed before they count as a circle. */
const MOST_LINKS = 40;
/** The rules are those of the first of these that is there. */
const RULES = ['.longshoreignore', '.dockerignore'];
const EPOCH = new Date(0);

/** What a folder has, in the order of the bytes of the names; without what `.longshoreignore`, else `.dockerignore`, names, and `.git`. */
export type FolderEntries = readonly PackedHeader[];

/** @throws CliError that names what must not be sent, or cannot be read */
export async function listFolder(folder: string, most: number = MOST_ENTRIES): Promise<FolderEntries> {
  try {
    const entries = await new FolderWalk(folder, await readRules(folder), most).below('');
    const links = new Map(entries.flatMap(({ name, linkname }) => (linkname ? [[name, linkname]] : [])));
    const out = entries.find(({ name }) => links.has(name) && leadsOut(name, links));
    if (out !== undefined)
      throw usageError(`${join(folder, out.name)} is a link that leads out of ${folder}`);
    return entries.toSorted((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
  } catch (error) {
    throw errorCode(error) === '' ? error : usageError(`cannot read ${folder}: ${errorText(error)}`);
  }
}

/** Writes a tar archive with gzip: of equal entries with equal content always the same bytes. @throws CliError when a file changes meanwhile */
export async function packFolder(folder: string, entries: FolderEntries, archive: string): Promise<void> {
  const tar = pack();
  const written = pipeline(tar, createGzip(), createWriteStream(archive));
  const filled = fill(tar, folder, entries).catch((error: unknown) => {
    tar.destroy();
    throw error;
  });
  const [first] = (await Promise.allSettled([filled, written])).filter(({ status }) => status === 'rejected');
  if (first?.status === 'rejected') throw usageError(`cannot pack ${folder}: ${errorText(first.reason)}`);
}

async function fill(tar: Pack, folder: string, entries: FolderEntries): Promise<void> {
  for (const header of entries) {
    const path = join(folder, header.name);
    await new Promise<void>((resolve, reject) => {
      const done = (error?: Error | null): void => {
        if (error) reject(new Error(`${path} has changed`));
        else resolve();
      };
      // It notes the size of links in what it is given.
      const sink = tar.entry({ ...header }, done);
      if (header.type !== 'file') return;
      if (header.size === 0) sink.end();
      else pipeline(createReadStream(path, { end: header.size - 1 }), sink).catch(reject);
    });
  }
  tar.finalize();
}

interface Rules {
  isLeftOut(path: string): boolean;
  /** Whether something of a folder that is left out may be sent. */
  readonly hasExceptions: boolean;
}

class FolderWalk {
  private count = 0;

  constructor(
    private readonly folder: string,
    private readonly rules: Rules,
    private readonly most: number,
  ) {}

  async below(under: string): Promise<PackedHeader[]> {
    const all: PackedHeader[] = [];
    for (const name of await readdir(join(this.folder, under))) {
      const path = posix.join(under, name);
      const isLeftOut = this.rules.isLeftOut(path);
      if (name === '.git' || (isLeftOut && !this.rules.hasExceptions)) continue;
      const found = await lstat(join(this.folder, path));
      const below = found.isDirectory() ? await this.below(path) : [];
      if (isLeftOut && below.length === 0) continue;
      this.count += 1;
      if (this.count > this.most)
        throw usageError(
          `${this.folder} has more than ${this.most} files and folders: name what is not needed in ${RULES[0]}`,
        );
      all.push(await this.headerOf(path, found));
      for (const one of below) all.push(one);
    }
    return all;
  }

  private async headerOf(name: string, found: Awaited<ReturnType<typeof lstat>>): Promise<PackedHeader> {
    const common = { name, mode: 0o755, size: 0, mtime: EPOCH };
    if (found.isDirectory()) return { ...common, type: 'directory' };
    const path = join(this.folder, name);
    if (found.isSymbolicLink()) return { ...common, type: 'symlink', linkname: await readlink(path) };
    if (!found.isFile()) throw usageError(`${path} is neither a file, a folder nor a link`);
    const mode = (Number(found.mode) & 0o100) === 0 ? 0o644 : 0o755;
    return { ...common, type: 'file', mode, size: Number(found.size) };
  }
}

async function readRules(folder: string): Promise<Rules> {
  for (const name of RULES) {
    try {
      const text = (await readFile(join(folder, name), 'utf8')).replace(/^\uFEFF/, '');
      const rules = dockerignore.default({ ignorecase: false }).add(text);
      return { isLeftOut: (path) => rules.ignores(path), hasExceptions: /^\s*!/m.test(text) };
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }
  return { isLeftOut: () => false, hasExceptions: false };
}

/** Whether a link, by itself or by others on its way, leads out of the folder, or nowhere because it goes in a circle. @param links targets by the names of links */
function leadsOut(link: string, links: ReadonlyMap<string, string>): boolean {
  const left = link.split('/');
  const at: string[] = [];
  for (let followed = 0; left.length > 0;) {
    const part = left.shift() ?? '';
    if (part === '' || part === '.') continue;
    if (part === '..') {
      if (at.pop() === undefined) return true;
      continue;
    }
    const target = links.get([...at, part].join('/'));
    if (target === undefined) at.push(part);
    else if (target.startsWith('/') || (followed += 1) > MOST_LINKS) return true;
    else left.unshift(...target.split('/'));
  }
  return false;
}
