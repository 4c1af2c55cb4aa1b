import { randomBytes, randomUUID } from 'node:crypto';
import { link, lstat, mkdir, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Clock } from '../../common/clock.js';
import { errorCode, errorText } from '@longshore/common/errors';
import type {
  FileStore,
  GetOptions,
  ListOptions,
  PutOptions,
  SignedUrl,
  StoredObject,
} from './file-store.js';
import { FolderPaths, isMissing } from './folder-paths.js';
import { FolderUploads, type UploadTerms } from './folder-uploads.js';
import { FolderUrls } from './folder-urls.js';
import { StoreUnavailable } from './stores.errors.js';

/** Uploads that have not grown for so long have ended with their process. */
const ABANDONED_MS = 60 * 60 * 1000;
const SECRET_BYTES = 32;

export interface FolderOptions {
  readonly path: string;
  readonly baseUrl: string | undefined;
  readonly minFreeMb: number;
}

/** Objects in a folder, which the service serves itself; several processes may share the folder. */
export class FolderStore implements FileStore {
  #sweptAt = 0;

  private constructor(
    private readonly paths: FolderPaths,
    private readonly uploads: FolderUploads,
    readonly urls: FolderUrls,
  ) {}

  /** Makes the folder, and the secret of its URLs, unless they exist. @throws Error that names the folder */
  static async open(
    { path, baseUrl, minFreeMb }: FolderOptions,
    clock: Pick<Clock, 'epochMs'>,
  ): Promise<FolderStore> {
    try {
      await mkdir(path, { recursive: true, mode: 0o700 });
      const paths = new FolderPaths(await realpath(resolve(path)));
      await mkdir(paths.temporary, { recursive: true, mode: 0o700 });
      const urls = new FolderUrls(await readSecret(paths), baseUrl, clock);
      return new FolderStore(paths, new FolderUploads(paths, minFreeMb * 1024 * 1024), urls);
    } catch (error) {
      throw new Error(`the folder ${path} of SERVICE_FILES_URL cannot be used: ${errorText(error)}`, {
        cause: error,
      });
    }
  }

  async signGet(key: string, options: GetOptions): Promise<SignedUrl> {
    return this.urls.sign('GET', key, options);
  }

  async signPut(key: string, options: PutOptions): Promise<SignedUrl> {
    return this.urls.sign('PUT', key, options);
  }

  /** Stores what arrives. @param announced bytes that are expected @throws DomainError; nothing of the upload stays then */
  receive(
    key: string,
    body: AsyncIterable<Uint8Array>,
    terms: UploadTerms,
    announced: number,
  ): Promise<StoredObject> {
    return inStore(() => this.uploads.receive(key, body, terms, announced));
  }

  /** Path of an object's file; undefined when the object does not exist. */
  async pathOf(key: string): Promise<string | undefined> {
    return inStore(async () => {
      const path = await this.paths.find(key);
      try {
        if (!(await lstat(path)).isFile()) return undefined;
        await this.paths.assertNoLinks(path);
        return path;
      } catch (error) {
        if (isMissing(error)) return undefined;
        throw error;
      }
    });
  }

  async head(key: string): Promise<StoredObject | undefined> {
    const path = await this.pathOf(key);
    return path === undefined ? undefined : inStore(() => this.uploads.describe(key, path));
  }

  async remove(keys: readonly string[]): Promise<void> {
    await inStore(async () => {
      for (const key of keys) {
        await rm(await this.paths.find(key), { force: true });
        await rm(this.paths.sums(key), { force: true });
      }
      await this.paths.tidy(keys);
    });
  }

  async list(prefix: string, { after = '', limit }: ListOptions): Promise<readonly StoredObject[]> {
    return inStore(async () => {
      const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
      const start = folder === '' ? this.paths.root : await this.paths.find(folder.slice(0, -1));
      const objects: StoredObject[] = [];
      if (limit <= 0) return objects;
      for await (const { key, path } of this.#walk(folder, start, { prefix, after })) {
        const object = await this.uploads.describe(key, path);
        if (object !== undefined) objects.push(object);
        if (objects.length >= limit) break;
      }
      return objects;
    });
  }

  async read(key: string): Promise<string | undefined> {
    const path = await this.pathOf(key);
    return path === undefined ? undefined : inStore(() => readFile(path, 'utf8'));
  }

  async write(key: string, text: string): Promise<void> {
    const bytes = Buffer.from(text);
    await this.receive(key, toIterable(bytes), { bytes: null, sha256: null, isOnce: false }, bytes.length);
  }

  async seal(prefix: string): Promise<void> {
    await inStore(() => this.paths.seal(prefix));
  }

  keyOf(url: URL): string | undefined {
    return this.urls.keyOf(url);
  }

  /** Writes a file; removes uploads that ended with their process once an hour. */
  async probe(): Promise<void> {
    await inStore(async () => {
      const path = join(this.paths.temporary, randomUUID());
      await writeFile(path, 'probe', { flag: 'wx' });
      await rm(path);
      if (Date.now() - this.#sweptAt < ABANDONED_MS) return;
      this.#sweptAt = Date.now();
      for (const name of await readdir(this.paths.temporary)) {
        const temporary = join(this.paths.temporary, name);
        const { mtimeMs } = await stat(temporary).catch(() => ({ mtimeMs: Infinity }));
        if (Date.now() - mtimeMs > ABANDONED_MS) await rm(temporary, { force: true });
      }
    });
  }

  async *#walk(
    key: string,
    folder: string,
    range: { readonly prefix: string; readonly after: string },
  ): AsyncGenerator<{ readonly key: string; readonly path: string }> {
    const { prefix, after } = range;
    for (const { name, path } of await this.paths.entries(key, folder)) {
      const below = key + name;
      if (!name.endsWith('/')) {
        if (below.startsWith(prefix) && below > after) yield { key: below, path };
        continue;
      }
      const isBefore = below < after && !after.startsWith(below);
      if (!isBefore && (below.startsWith(prefix) || prefix.startsWith(below))) {
        yield* this.#walk(below, path, range);
      }
    }
  }
}

/** Reports errors of the system as those of a store. */
async function inStore<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error) || !('syscall' in error)) throw error;
    throw new StoreUnavailable(`${String(error.syscall)} of the folder fails: ${errorCode(error)}`, error);
  }
}

/** The secret that signs URLs; the first process makes it. */
async function readSecret(paths: FolderPaths): Promise<Buffer> {
  const temporary = join(paths.temporary, randomUUID());
  await writeFile(temporary, randomBytes(SECRET_BYTES).toString('base64'), { flag: 'wx', mode: 0o600 });
  try {
    await link(temporary, paths.secret);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  } finally {
    await rm(temporary, { force: true });
  }
  const secret = Buffer.from(await readFile(paths.secret, 'utf8'), 'base64');
  if (secret.length !== SECRET_BYTES)
    throw new Error(`${paths.secret} is not ${SECRET_BYTES} bytes in Base64`);
  return secret;
}

async function* toIterable(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
