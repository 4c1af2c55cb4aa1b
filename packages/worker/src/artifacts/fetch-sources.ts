import { createReadStream } from 'node:fs';
import { posix } from 'node:path';
import { errorCode, errorText } from '@longshore/common/errors';
import { foldersOf } from '@longshore/common/path-parts';
import { Semaphore } from '@longshore/common/semaphore';
import { BrokenTar } from '../runtime/tar-entries.js';
import { RunFault, type FetchedEntry, type FetchedSource } from '../runtime/runtime.js';
import type { ArtifactSource, NamedFile, RunArtifacts, SignedFile } from '../service-api/run-artifacts.js';
import { planUnpack, unpackedEntries } from './archive/unpack.js';
import { download, NotFetched, type DownloadParts, type Wanted } from './download.js';
import type { StagedFile } from './file-cache.js';
import { inParallel } from './in-parallel.js';
import { withProgress, type TransferLog } from './progress.js';

/** Files of one run that are on their way at a time. */
export const FILES_AT_ONCE = 4;

export interface FetchParts extends DownloadParts {
  /** The files of the run, with fresh URLs. What it throws ends the fetching as it is. */
  readonly getSources: () => Promise<RunArtifacts['in']>;
}

/** The service was not asked for fresh URLs, or has not given them. */
class NotAsked extends Error {
  constructor(readonly reason: unknown) {
    super();
  }
}

/** What is fetched for a run. */
export interface Fetched {
  readonly sources: readonly FetchedSource[];
  /** Gives up the files on the disk of the worker, once the container has its copies. Idempotent. */
  release(): Promise<void>;
}

export const NOTHING_FETCHED: Fetched = { sources: [], release: async () => undefined };

/**
 * Fetches the files of a run, and reads archives to their ends, before anything of them is put anywhere.
 * @param signal ends the reading of what is fetched, too
 * @throws RunFault that names the path when one is not there or must not be fetched
 * @throws Error that names the path when the store is away or the disk of the worker is full
 */
export async function fetchSources(
  sources: RunArtifacts['in'],
  parts: FetchParts,
  log: TransferLog,
  signal: AbortSignal,
): Promise<Fetched> {
  if (Object.keys(sources).length > 0) await parts.cache.open();
  const fetching = new Fetching(parts, log);
  try {
    const fetched = await inParallel(Object.entries(sources), signal, (source, stop) =>
      fetching.fetch(...source, stop),
    );
    return { sources: fetched, release: () => fetching.release() };
  } catch (error) {
    await fetching.release();
    throw error;
  }
}

/** The fetching of the files of one run. */
class Fetching {
  private readonly staged: StagedFile[] = [];
  private readonly turns = new Semaphore(FILES_AT_ONCE);

  constructor(
    private readonly parts: FetchParts,
    private readonly log: TransferLog,
  ) {}

  async fetch(path: string, source: ArtifactSource, signal: AbortSignal): Promise<FetchedSource> {
    const { get } = source;
    if (get !== null && 'length' in get) return this.fetchFolder(path, get, signal);
    const file = await this.fetchFile(path, this.wantedOf(path, source), signal);
    if (!source.isUnpacked)
      return { path, kind: 'file', entries: () => filesOf([{ name: '', file }], signal) };
    try {
      const plan = await planUnpack(file.path, signal);
      return { path, kind: 'folder', entries: () => unpackedEntries(file.path, plan, signal) };
    } catch (error) {
      if (!(error instanceof BrokenTar)) throw error;
      throw new RunFault(`The file for '${path}' cannot be unpacked: ${error.message}`);
    }
  }

  async release(): Promise<void> {
    for (const file of this.staged.splice(0)) await file.release();
  }

  private async fetchFolder(
    path: string,
    get: readonly NamedFile[],
    signal: AbortSignal,
  ): Promise<FetchedSource> {
    const files = await inParallel(get, signal, async (one, stop) => {
      const place = posix.join(path, one.name);
      if (!place.startsWith(`${path}/`)) throw notFetched(place, 'it is not below the path');
      const renew = this.renewing(path, (now) => linksOf(now).find(({ name }) => name === one.name));
      return { name: one.name, file: await this.fetchFile(place, { ...one, renew }, stop) };
    });
    return { path, kind: 'folder', entries: () => filesOf(files, signal) };
  }

  private wantedOf(path: string, { get, url, sha256 }: ArtifactSource): Wanted {
    if (get !== null && !('length' in get)) {
      const renew = this.renewing(path, (now) =>
        now.get !== null && 'url' in now.get ? now.get : undefined,
      );
      return { ...get, sha256: sha256 ?? get.sha256, renew };
    }
    if (url === null) throw notFetched(path, noUrl().message);
    return { url, bytes: null, sha256, renew: null };
  }

  /** @param find the file in its source */
  private renewing(
    path: string,
    find: (source: ArtifactSource) => SignedFile | undefined,
  ): () => Promise<string> {
    return async () => {
      const { [path]: source } = await this.parts.getSources().catch((reason: unknown) => {
        throw new NotAsked(reason);
      });
      const file = source && find(source);
      if (file === undefined) throw noUrl();
      return file.url;
    };
  }

  private fetchFile(path: string, wanted: Wanted, signal: AbortSignal): Promise<StagedFile> {
    const { cache } = this.parts;
    return this.turns.run(() =>
      cache.alone(wanted.sha256, async () => {
        signal.throwIfAborted();
        const what = { doing: 'fetching', done: 'fetched', what: path, total: wanted.bytes };
        try {
          return await withProgress(this.log, what, async (count) => {
            const kept = wanted.sha256 === null ? null : await cache.find(wanted.sha256, signal);
            const file = kept ?? (await this.fetchNew(wanted, signal, count));
            this.staged.push(file);
            count(file.bytes);
            return file;
          });
        } catch (error) {
          signal.throwIfAborted();
          if (error instanceof NotAsked) throw error.reason;
          if (error instanceof NotFetched) throw notFetched(path, error.message);
          const why = errorText(error) || errorCode(error);
          throw new Error(`The file for '${path}' could not be fetched: ${why}`, { cause: error });
        }
      }),
    );
  }

  private async fetchNew(
    wanted: Wanted,
    signal: AbortSignal,
    count: (bytes: number) => void,
  ): Promise<StagedFile> {
    const { file, bytes } = await download(wanted, this.parts, signal, count);
    return this.parts.cache.finish(file, bytes, wanted.sha256);
  }
}

/** Those of a folder. */
function linksOf({ get }: ArtifactSource): readonly NamedFile[] {
  return get !== null && 'length' in get ? get : [];
}

function noUrl(): NotFetched {
  return new NotFetched('the service has given no URL for it');
}

function notFetched(path: string, why: string): RunFault {
  return new RunFault(`The file for '${path}' cannot be fetched: ${why}`);
}

/** Copies of whole files, and the folders that they are in. */
async function* filesOf(
  files: readonly { readonly name: string; readonly file: StagedFile }[],
  signal: AbortSignal,
): AsyncGenerator<FetchedEntry> {
  const folders = files.flatMap(({ name }) => foldersOf(name));
  for (const path of [...new Set(folders)].toSorted()) yield { kind: 'folder', path };
  for (const { name, file } of files) {
    const content = createReadStream(file.path, { signal, highWaterMark: 2 ** 18 });
    yield { kind: 'file', path: name, mode: 0o444, bytes: file.bytes, content };
    content.destroy();
  }
}
