import { createHash, randomUUID } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import {
  appendFile,
  link,
  mkdir,
  open,
  readFile,
  rename,
  rm,
  stat,
  statfs,
  type FileHandle,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { errorCode } from '@longshore/common/errors';
import type { StoredObject } from './file-store.js';
import { exists, isMissing, nameTaken, type FolderPaths } from './folder-paths.js';
import type { UrlTerms } from './folder-urls.js';
import { AlreadyStored, StoreFull, UploadConflict } from './stores.errors.js';

/** The free space is asked for again after so many bytes of an upload. */
const CHECKED_BYTES = 64 * 1024 * 1024;

/** Checksums of one object whose file is larger are not kept. */
const MAX_SUMS_BYTES = 64 * 1024;

export type UploadTerms = Pick<UrlTerms, 'bytes' | 'sha256' | 'isOnce'>;

/** Writes objects into a folder, and remembers their checksums. */
export class FolderUploads {
  constructor(
    private readonly paths: FolderPaths,
    private readonly minFreeBytes: number,
  ) {}

  /**
   * Stores what arrives, under a temporary name until it is complete.
   * @param announced bytes that are expected
   * @throws DomainError, or an error of the system; nothing of the upload stays then
   */
  async receive(
    key: string,
    body: AsyncIterable<Uint8Array>,
    terms: UploadTerms,
    announced: number,
  ): Promise<StoredObject> {
    const target = await this.paths.prepare(key);
    if (terms.isOnce && (await exists(target))) throw new AlreadyStored();
    await this.#assertFree(announced);
    const temporary = join(this.paths.temporary, randomUUID());
    try {
      const sha256 = await this.#write(temporary, body, terms);
      await this.#commit(key, { temporary, target, sha256, isOnce: terms.isOnce });
      const object = await this.describe(key, await this.paths.find(key));
      if (object === undefined) throw new UploadConflict('The object was removed at the same time');
      return object;
    } catch (error) {
      if (['ENOSPC', 'EDQUOT'].includes(errorCode(error))) throw new StoreFull();
      throw error;
    } finally {
      await rm(temporary, { force: true });
    }
  }

  /** @returns undefined when the file has gone */
  async describe(key: string, path: string): Promise<StoredObject | undefined> {
    try {
      const file = await stat(path, { bigint: true });
      const { size, mtimeNs, mtime } = file;
      const sha256 = await this.#findSum(key, file);
      const etag = `"${sha256 ?? `${size}-${mtimeNs}`}"`;
      return { key, bytes: Number(size), etag, sha256, modifiedAt: mtime };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  /** @returns the checksum */
  async #write(
    path: string,
    body: AsyncIterable<Uint8Array>,
    { bytes, sha256 }: UploadTerms,
  ): Promise<string> {
    const hash = createHash('sha256');
    let size = 0;
    let checked = 0;
    await withFile(path, async (file) => {
      for await (const chunk of body) {
        size += chunk.length;
        if (bytes !== null && size > bytes) break;
        if (size - checked >= CHECKED_BYTES) {
          checked = size;
          await this.#assertFree(0);
        }
        hash.update(chunk);
        await file.writeFile(chunk);
      }
      await file.sync();
    });
    if (bytes !== null && size !== bytes) {
      throw new InvalidRequest(
        `The URL takes ${bytes} bytes, and ${size < bytes ? 'fewer' : 'more'} were sent`,
      );
    }
    const sum = hash.digest('hex');
    if (sha256 !== null && sum !== sha256)
      throw new InvalidRequest('The content has another SHA-256 than that of the URL');
    return sum;
  }

  async #commit(
    key: string,
    upload: {
      readonly temporary: string;
      readonly target: string;
      readonly sha256: string;
      readonly isOnce: boolean;
    },
  ): Promise<void> {
    const { temporary, target, sha256, isOnce } = upload;
    await this.#addSum(key, temporary, sha256);
    try {
      // A link, unlike a renamed file, does not replace what is there.
      await (isOnce ? link(temporary, target) : rename(temporary, target));
    } catch (error) {
      const code = errorCode(error);
      if (code === 'EEXIST') throw new AlreadyStored();
      if (code === 'EISDIR' || code === 'ENOTDIR') throw nameTaken();
      if (code !== 'ENOENT') throw error;
      await this.paths.assertOpen(key);
      throw new UploadConflict('The folder of the object was removed at the same time');
    }
    const path = await this.paths.find(key);
    // The uploads ended at the same time: either that took the file along, or the file came later, into a new folder.
    if (path !== target && (await exists(target))) {
      await rm(target, { force: true });
      await this.paths.assertOpen(key);
    }
    await withFile(dirname(path), (folder) => folder.sync(), 'r');
  }

  /** @throws StoreFull */
  async #assertFree(bytes: number): Promise<void> {
    const { bavail, bsize } = await statfs(this.paths.root);
    if (bavail * bsize - bytes < this.minFreeBytes) throw new StoreFull();
  }

  /**
   * The sums of a key are lines that are only added: one of an upload that came to nothing fits no file. A sum counts for a file of the
   * size and time beside it, so that copies of the folder keep them; of several that fit, which uploads at the same moment give, for the
   * file of its number.
   */
  async #addSum(key: string, path: string, sha256: string): Promise<void> {
    const { size, mtimeNs, ino } = await stat(path, { bigint: true });
    const sums = this.paths.sums(key);
    try {
      await mkdir(dirname(sums), { recursive: true, mode: 0o700 });
      const before = await stat(sums).catch(() => ({ size: 0 }));
      if (before.size < MAX_SUMS_BYTES)
        await appendFile(sums, `${size} ${mtimeNs} ${sha256} ${ino}\n`, { mode: 0o600 });
    } catch (error) {
      if (['EEXIST', 'ENOTDIR', 'EISDIR'].includes(errorCode(error))) throw nameTaken();
      throw error;
    }
  }

  async #findSum(
    key: string,
    { size, mtimeNs, ino }: Pick<BigIntStats, 'size' | 'mtimeNs' | 'ino'>,
  ): Promise<string | null> {
    const text = await readFile(this.paths.sums(key), 'utf8').catch((error: unknown) => {
      if (isMissing(error) || errorCode(error) === 'EISDIR') return '';
      throw error;
    });
    // Some archives keep whole seconds.
    const isOf = (time: string): boolean => [time, `${time.slice(0, -9)}000000000`].includes(`${mtimeNs}`);
    const fitting = text
      .split('\n')
      .map((line) => line.split(' '))
      .filter(([bytes, time = '']) => bytes === `${size}` && isOf(time));
    const isOne = new Set(fitting.map(([, , sha256]) => sha256)).size === 1;
    const own = isOne ? fitting[0] : fitting.findLast(([, , , number]) => number === `${ino}`);
    return own?.[2] ?? null;
  }
}

async function withFile<T>(path: string, work: (file: FileHandle) => Promise<T>, flags = 'wx'): Promise<T> {
  const file = await open(path, flags, 0o600);
  try {
    return await work(file);
  } finally {
    await file.close();
  }
}
