import { lstat, mkdir, readdir, realpath, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { errorCode } from '@longshore/common/errors';
import { arePlainParts } from '@longshore/common/path-parts';
import { StoreUnavailable, UploadConflict } from './stores.errors.js';

/** Folder of the uploads that are arriving. */
const TEMPORARY = '.tmp';
/** Folder of the checksums, by key. */
const SUMS = '.sums';
/** File of the secret that signs URLs. */
const SECRET = '.secret';
const RESERVED: ReadonlySet<string> = new Set([TEMPORARY, SUMS, SECRET]);

/** File in the folder of an attempt whose uploads have ended; names of artifacts cannot begin with a dot. */
const SEALED = '.sealed';
/** End of the folder of an attempt that takes uploads. */
const OPEN = '.open';
const ATTEMPT = /^(runs\/[^/]+\/\d+)(?:\/(.+))?$/;
const OPEN_ATTEMPT = /^runs\/[^/]+\/\d+\.open(?:\/|$)/;

const MAX_KEY_BYTES = 1024;

export interface FolderEntry {
  readonly name: string;
  readonly path: string;
}

/** Whether the operation failed because there is no such file or folder. */
export function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(errorCode(error));
}

/**
 * Where the objects of a folder are. The objects of an attempt are in `runs/RUN/ATTEMPT.open` until {@link FolderPaths.seal}
 * renames this folder: an upload that ends afterwards finds no folder.
 */
export class FolderPaths {
  /** @param root absolute, without links */
  constructor(readonly root: string) {}

  get temporary(): string {
    return join(this.root, TEMPORARY);
  }

  get secret(): string {
    return join(this.root, SECRET);
  }

  /** The checksums of the uploads of an object. */
  sums(key: string): string {
    return join(this.root, SUMS, ...checkKey(key));
  }

  /** Where an object or a folder is, if there is one. @throws RangeError for a key that no object can have */
  async find(key: string): Promise<string> {
    const parts = checkKey(key);
    const [, attempt, name = ''] = ATTEMPT.exec(key) ?? [];
    if (attempt === undefined) return join(this.root, ...parts);
    const sealed = join(this.root, attempt);
    return join((await exists(sealed)) ? sealed : sealed + OPEN, name);
  }

  /** Makes the folder for an upload. @returns where the object will be @throws UploadConflict */
  async prepare(key: string): Promise<string> {
    await this.assertOpen(key);
    const parts = checkKey(key);
    const [, attempt, name] = ATTEMPT.exec(key) ?? [];
    const path =
      attempt === undefined || name === undefined
        ? join(this.root, ...parts)
        : join(this.root, attempt + OPEN, name);
    await makeFolder(dirname(path));
    await this.assertNoLinks(dirname(path));
    return path;
  }

  /** @throws UploadConflict when the uploads of the attempt have ended */
  async assertOpen(key: string): Promise<void> {
    const attempt = ATTEMPT.exec(key)?.[1];
    if (attempt !== undefined && (await exists(join(this.root, attempt)))) throw attemptEnded();
  }

  /** Ends the uploads of an attempt; other prefixes have none that end. */
  async seal(prefix: string): Promise<void> {
    const attempt = ATTEMPT.exec(prefix)?.[1];
    if (attempt !== prefix) throw new RangeError(`uploads to ${prefix} do not end`);
    const path = join(this.root, ...checkKey(prefix));
    if (await exists(path)) return;
    try {
      // With the file the folder is not empty, so that a second one cannot replace it.
      await makeFolder(path + OPEN);
      await this.assertNoLinks(path + OPEN);
      await writeFile(join(path + OPEN, SEALED), '');
      await rename(path + OPEN, path);
    } catch (error) {
      // Another process was faster.
      if (!(await exists(path))) throw error;
    }
  }

  /** Removes the folders above objects that are empty, and what attempts without objects have left. */
  async tidy(keys: readonly string[]): Promise<void> {
    for (const key of keys) {
      for (const path of [await this.find(key), this.sums(key)]) await this.#removeEmpty(dirname(path));
    }
    for (const attempt of new Set(keys.flatMap((key) => ATTEMPT.exec(key)?.[1] ?? [])))
      await this.#tidyAttempt(attempt);
  }

  /** Removes what uploads that came to nothing have left, when there is no object beside it. */
  async #tidyAttempt(attempt: string): Promise<void> {
    const path = join(this.root, attempt);
    for (const folder of [path + OPEN, path]) await this.#prune(folder);
    const names = await readdir((await exists(path)) ? path : path + OPEN).catch(() => []);
    if (names.some((name) => name !== SEALED)) return;
    const folders = names.length > 0 ? [path + OPEN, path] : [];
    for (const one of [...folders, this.sums(attempt)]) {
      await rm(one, { recursive: true, force: true });
      await this.#removeEmpty(dirname(one));
    }
  }

  /** Removes folders below one that have no file, and this one if it is empty then. */
  async #prune(folder: string): Promise<void> {
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) if (entry.isDirectory()) await this.#prune(join(folder, entry.name));
    await this.#removeEmpty(folder);
  }

  async #removeEmpty(folder: string): Promise<void> {
    const top = join(this.root, SUMS);
    for (let path = folder; path !== this.root && path !== top; path = dirname(path)) {
      try {
        await rmdir(path);
      } catch (error) {
        if (!isMissing(error)) return;
      }
    }
  }

  /** @throws StoreUnavailable when a part of the path is a link; an error of the system when it does not exist */
  async assertNoLinks(path: string): Promise<void> {
    if ((await realpath(path)) !== path) throw new StoreUnavailable(`${path} leads through a link`);
  }

  /**
   * What is in a folder, in the order of keys. Names of folders end in `/`.
   * @param key of the folder; empty, or ends in `/`
   */
  async entries(key: string, folder: string): Promise<FolderEntry[]> {
    const found = await readdir(folder, { withFileTypes: true }).catch((error: unknown) => {
      if (isMissing(error)) return [];
      throw error;
    });
    const names = new Set(found.map(({ name }) => name));
    return found
      .flatMap((entry) => {
        const path = join(folder, entry.name);
        if (key === '' ? RESERVED.has(entry.name) : entry.name === SEALED && ATTEMPT.test(key.slice(0, -1)))
          return [];
        if (entry.isFile()) return [{ name: entry.name, path }];
        if (!entry.isDirectory()) return [];
        const isOpen = OPEN_ATTEMPT.test(key + entry.name);
        const name = isOpen ? entry.name.slice(0, -OPEN.length) : entry.name;
        return isOpen && names.has(name) ? [] : [{ name: `${name}/`, path }];
      })
      .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }
}

function attemptEnded(): UploadConflict {
  return new UploadConflict('The attempt has ended: it takes no more uploads');
}

/** @returns the parts of the key @throws RangeError for a key that no object can have */
export function checkKey(key: string): string[] {
  const parts = key.split('/');
  const isPlain =
    arePlainParts(parts) &&
    /^\P{Cc}+$/u.test(key) &&
    Buffer.byteLength(key) <= MAX_KEY_BYTES &&
    !RESERVED.has(parts[0] ?? '') &&
    !OPEN_ATTEMPT.test(key);
  if (!isPlain) throw new RangeError('an object cannot have this key');
  return parts;
}

async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    if (['EEXIST', 'ENOTDIR'].includes(errorCode(error))) throw nameTaken();
    throw error;
  }
}

/** A file is where a folder should be, or the other way round. */
export function nameTaken(): UploadConflict {
  return new UploadConflict('A part of the name is that of another object');
}

export async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}
