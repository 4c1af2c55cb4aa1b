import { once } from 'node:events';
import { basename, dirname } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { jsonText } from '@longshore/common/json/json-text';
import { extract, pack, type Header } from 'tar-stream';
import { CONTAINER_FOLDER, scratchPaths } from './container-options.js';
import type { ContainerTiming } from './docker.container.js';
import { engineStatus, withLimit } from '../engine/docker-engine.js';
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
  { inputs, outputTemplate }: ContainerSpec,
  abortSignal: AbortSignal,
): Promise<void> {
  const folder = CONTAINER_FOLDER.slice(1);
  const archive = pack();
  archive.entry({ name: folder, type: 'directory', mode: 0o777 });
  archive.entry({ name: `${folder}/input.json`, mode: 0o644 }, jsonText(inputs));
  archive.entry({ name: `${folder}/output.json`, mode: 0o666 }, templateText(outputTemplate));
  archive.finalize();
  await container.putArchive(await buffer(archive), { path: '/', abortSignal });
}

/**
 * Copies the files of a run into a created container. The engine follows links of the image in the folders of a path, within
 * the container; a file or a link at its end is replaced, and a folder there is refused.
 * @throws FilesError when the engine refuses
 */
async function putFiles(
  container: Dockerode.Container,
  { files, user }: ContainerSpec,
  abortSignal: AbortSignal,
): Promise<void> {
  if (files.length === 0) return;
  const archive = pack();
  // Folders are not in the archive: an entry would replace a link of the image. The engine creates those that are missing.
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
 * Reads the output file of an ended container. The engine follows no link at the end of the path; links in the middle lead
 * nowhere but into the container.
 * @returns null when there is no such file
 * @throws RunFault when it is no regular file or too large
 * @throws Error of the engine, also when the container is gone
 */
export async function readOutputFile(
  container: Dockerode.Container,
  abortSignal: AbortSignal,
  maxBytes = MAX_OUTPUT_BYTES,
): Promise<Buffer | null> {
  let archive: AsyncIterable<unknown>;
  try {
    archive = await container.getArchive({ path: `${CONTAINER_FOLDER}/output.json`, abortSignal });
  } catch (error) {
    if (engineStatus(error) !== 404) throw error;
    // The same status tells of a missing file and of a missing container.
    await container.inspect({ abortSignal });
    return null;
  }
  return onlyFile(archive, maxBytes);
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
