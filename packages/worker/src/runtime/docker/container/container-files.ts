import { once } from 'node:events';
import { basename, dirname } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { jsonText } from '@longshore/common/json/json-text';
import { extract, pack, type Header } from 'tar-stream';
import { CONTAINER_FOLDER } from '../../container-places.js';
import { scratchPaths } from './container-options.js';
import type { ContainerTiming } from './docker.container.js';
import { engineStatus, withLimit } from '../engine/docker-engine.js';
import { lookUp } from '../places/look-up.js';
import { hasVolume } from '../places/place-rules.js';
import { FilesError } from '../engine/engine-verdict.js';
import { MAX_OUTPUT_BYTES, refusedOutputs, templateText } from '../../outputs.js';
import type { ContainerSpec } from '../../runtime.js';

/** Headers and padding of an archive of one file, in bytes at most. */
const ARCHIVE_OVERHEAD = 64 * 1024;

const PUT_TRIES = 3;

/**
 * Puts the files of a run into a created container, and opens its empty folders. Repeats calls whose connection broke: they
 * may be made twice.
 * @throws FilesError when the engine refuses files or folders of the run
 */
export async function fillContainer(
  container: Dockerode.Container,
  spec: ContainerSpec,
  { startMs, retryMs }: ContainerTiming,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await withLimit(startMs, 'archive', async (abortSignal) => {
        await putInputs(container, spec, abortSignal);
        await openScratch(container, spec, abortSignal);
        await putFiles(container, spec, abortSignal);
      });
      return;
    } catch (error) {
      if (engineStatus(error) !== null || tries === PUT_TRIES) throw error;
      await sleep(retryMs);
    }
  }
}

/**
 * Copies the input and the output file into a created container. Folder and output file are open to every user, because the
 * image decides which user the container runs as, and without capabilities even root is subject to file modes.
 */
async function putInputs(
  container: Dockerode.Container,
  { inputs, outputTemplate, mounts }: ContainerSpec,
  abortSignal: AbortSignal,
): Promise<void> {
  const name = CONTAINER_FOLDER.slice(1);
  // If the folder is a volume: Podman puts into it only what is put there by its own path.
  const isVolume = hasVolume(mounts);
  const folder = pack();
  const files = isVolume ? pack() : folder;
  const prefix = isVolume ? '' : `${name}/`;
  folder.entry({ name, type: 'directory', mode: 0o777 });
  files.entry({ name: `${prefix}input.json`, mode: 0o644 }, jsonText(inputs));
  files.entry({ name: `${prefix}output.json`, mode: 0o666 }, templateText(outputTemplate));
  folder.finalize();
  await container.putArchive(await buffer(folder), { path: '/', abortSignal });
  if (!isVolume) return;
  files.finalize();
  await container.putArchive(await buffer(files), { path: CONTAINER_FOLDER, abortSignal });
}

/**
 * Copies the files of a run into a created container, whose places were checked: no path has a link. A file at its end is replaced.
 * @throws FilesError when the engine refuses
 */
async function putFiles(
  container: Dockerode.Container,
  { files, user }: ContainerSpec,
  abortSignal: AbortSignal,
): Promise<void> {
  if (files.length === 0) return;
  const archive = pack();
  // Folders are not in the archive: an entry would change their modes. The engine creates those that are missing.
  for (const { path, content, mode } of files)
    archive.entry({ name: path.slice(1), mode, ...ownerOf(user) }, content);
  archive.finalize();
  await put(container, archive, { path: '/', abortSignal });
}

/**
 * Gives the empty folders of a created container to the user of the run, or opens them to every user.
 * @throws FilesError when the image has something else at such a path
 */
async function openScratch(
  container: Dockerode.Container,
  { mounts, user }: ContainerSpec,
  abortSignal: AbortSignal,
): Promise<void> {
  for (const path of scratchPaths(mounts)) {
    const archive = pack();
    const mode = user === null ? 0o1777 : 0o755;
    archive.entry({ name: basename(path), type: 'directory', mode, ...ownerOf(user) });
    archive.finalize();
    await put(container, archive, { path: dirname(path), abortSignal });
  }
}

async function put(
  container: Dockerode.Container,
  archive: ReturnType<typeof pack>,
  options: { readonly path: string; readonly abortSignal: AbortSignal },
): Promise<void> {
  try {
    await container.putArchive(await buffer(archive), { ...options, noOverwriteDirNonDir: true });
  } catch (error) {
    throw engineStatus(error) === null ? error : new FilesError(error);
  }
}

/** In extended attributes: the fields of a header hold no ids above 2097151. */
function ownerOf(user: string | null): Pick<Header, 'pax'> {
  const [uid, gid = '0'] = user?.split(':') ?? [];
  return uid === undefined ? {} : { pax: { uid, gid } };
}

/**
 * Reads the output file of a container in which nothing changes any more. No link is followed: the program may have put one in the
 * place of the file, or of its folder.
 * @returns null when there is no such file
 * @throws RunFault when it is no regular file or too large
 * @throws Error of the engine, also when the container is gone
 */
export async function readOutputFile(
  container: Dockerode.Container,
  abortSignal: AbortSignal,
  maxBytes = MAX_OUTPUT_BYTES,
): Promise<Buffer | null> {
  const folder = await lookUp(container, CONTAINER_FOLDER, abortSignal);
  if (folder.kind === 'missing') return noFile(container, abortSignal);
  if (folder.kind !== 'folder') throw refusedOutputs(`${CONTAINER_FOLDER} is no folder any more`);
  let archive: AsyncIterable<unknown>;
  try {
    archive = await container.getArchive({ path: `${CONTAINER_FOLDER}/output.json`, abortSignal });
  } catch (error) {
    if (engineStatus(error) !== 404) throw error;
    return noFile(container, abortSignal);
  }
  return onlyFile(archive, maxBytes);
}

/** The engine has the same status for a missing file and a missing container. */
async function noFile(container: Dockerode.Container, abortSignal: AbortSignal): Promise<null> {
  await container.inspect({ abortSignal });
  return null;
}

/** Stops reading at anything but one regular file within the limit. */
async function onlyFile(archive: AsyncIterable<unknown>, maxBytes: number): Promise<Buffer> {
  const headers: Header[] = [];
  const content: Buffer[] = [];
  const entries = extract();
  entries.on('entry', (header, body, next) => {
    headers.push(header);
    body.on('data', (bytes: Buffer) => content.push(bytes));
    body.on('end', next);
  });
  // A broken archive: reported by `finished`, and again for every header after that.
  entries.on('error', () => undefined);
  const finished = once(entries, 'finish');
  finished.catch(() => undefined);
  const check = (length: number): void => {
    if (headers.some(({ type }) => type !== 'file')) throw refusedOutputs('it is no regular file');
    if (length > maxBytes + ARCHIVE_OVERHEAD || headers.some(({ size = 0 }) => size > maxBytes))
      throw refusedOutputs(`it is larger than ${maxBytes} bytes`);
  };
  let length = 0;
  for await (const bytes of archive) {
    if (!Buffer.isBuffer(bytes)) continue;
    length += bytes.length;
    entries.write(bytes);
    check(length);
  }
  entries.end();
  await finished;
  check(length);
  if (headers.length !== 1) throw refusedOutputs('it is no regular file');
  return Buffer.concat(content);
}
