import { posix } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { pack, type Header, type Pack } from 'tar-stream';
import { isWithin } from '../../container-places.js';
import type { ContainerSpec, FetchedEntry, FetchedSource } from '../../runtime.js';
import { FilesError } from '../engine/engine-verdict.js';
import { engineStatus } from '../engine/docker-engine.js';
import { mountedFolders } from '../places/place-rules.js';
import { folderMode, ownerOf, PUT_TRIES } from './container-files.js';
import type { ContainerTiming } from './docker.container.js';

/** The field of a header holds no larger size, in bytes. */
const MAX_SIZE_FIELD = 8 ** 11 - 1;
const EMPTY = Buffer.alloc(0);

/**
 * Copies what was fetched for a run into a created container, whose places were checked, as streams. Repeats a copy whose
 * connection broke.
 * @throws FilesError when the engine refuses
 */
export async function putFetched(
  container: Dockerode.Container,
  spec: ContainerSpec,
  timing: ContainerTiming,
  signal?: AbortSignal,
): Promise<void> {
  for (const source of spec.artifacts?.fetched ?? []) {
    for (let tries = 1; ; tries++) {
      try {
        await putSource(container, source, spec, timing.startMs, signal);
        break;
      } catch (error) {
        signal?.throwIfAborted();
        if (engineStatus(error) !== null) throw new FilesError(error);
        if (tries === PUT_TRIES) throw error;
      }
      await sleep(timing.retryMs);
    }
  }
}

/** @param silenceMs after which a copy is given up that does not move */
async function putSource(
  container: Dockerode.Container,
  source: FetchedSource,
  { user, mounts }: ContainerSpec,
  silenceMs: number,
  stop?: AbortSignal,
): Promise<void> {
  // Podman puts into what is mounted only what is put there by its own path.
  const outer = mountedFolders(mounts, []).find((one) => isWithin(source.path, one)) ?? '/';
  const archive = pack();
  const abort = new AbortController();
  const late = new Error(`the container engine took nothing for ${silenceMs / 1000} s`);
  const timer = setTimeout(() => abort.abort(late), silenceMs);
  const base = posix.relative(outer, source.path);
  const headerOf = (entry: FetchedEntry): Header => toHeader(entry, base, user);
  const fed = feed(archive, source, headerOf, () => void timer.refresh());
  fed.catch((error: unknown) => abort.abort(error));
  const abortSignal = stop === undefined ? abort.signal : AbortSignal.any([stop, abort.signal]);
  try {
    await Promise.all([
      fed,
      container.putArchive(archive, { path: outer, abortSignal, noOverwriteDirNonDir: true }),
    ]);
  } catch (error) {
    archive.destroy();
    throw abort.signal.aborted && engineStatus(error) === null ? abort.signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
}

async function feed(
  archive: Pack,
  source: FetchedSource,
  headerOf: (entry: FetchedEntry) => Header,
  onProgress: () => void,
): Promise<void> {
  const add = (header: Header): Promise<void> =>
    new Promise((resolve, reject) => {
      // With an empty content, the call waits until there is room.
      archive.entry(header, EMPTY, (error) => (error ? reject(error) : resolve()));
    });
  if (source.kind === 'folder') await add(headerOf({ kind: 'folder', path: '' }));
  for await (const entry of source.entries()) {
    onProgress();
    if (entry.kind !== 'file' || entry.bytes === 0) {
      await add(headerOf(entry));
      continue;
    }
    await new Promise<void>((resolve, reject) => {
      const sink = archive.entry(headerOf(entry), (error) => (error ? reject(error) : resolve()));
      pipeline(entry.content, watched, sink).catch(reject);
    });
  }
  archive.finalize();

  async function* watched(chunks: AsyncIterable<unknown>): AsyncGenerator {
    for await (const chunk of chunks) {
      onProgress();
      yield chunk;
    }
  }
}

/** @param base path of the source in the archive */
function toHeader(entry: FetchedEntry, base: string, user: string | null): Header {
  const name = posix.join(base, entry.path);
  const owner = ownerOf(user);
  switch (entry.kind) {
    case 'folder':
      return { name, type: 'directory', mode: folderMode(user), ...owner };
    case 'file': {
      const { bytes: size, mode } = entry;
      const pax = { ...owner.pax, ...(size > MAX_SIZE_FIELD && { size: String(size) }) };
      return { name, type: 'file', mode, size, ...(Object.keys(pax).length > 0 && { pax }) };
    }
    case 'link':
      return { name, type: 'symlink', mode: 0o777, linkname: entry.target, ...owner };
    case 'same':
      return { name, type: 'link', mode: entry.mode, linkname: posix.join(base, entry.as), ...owner };
  }
}
