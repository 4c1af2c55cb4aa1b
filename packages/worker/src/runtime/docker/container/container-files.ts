import { dirname, posix } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { jsonText } from '@longshore/common/json/json-text';
import { pack, type Header } from 'tar-stream';
import { CONTAINER_FOLDER, isWithin } from '../../container-places.js';
import type { ContainerTiming } from './docker.container.js';
import { engineStatus, withLimit } from '../engine/docker-engine.js';
import { lookUp } from '../places/look-up.js';
import { onlyFile } from '../places/only-file.js';
import { hasVolume, mountedFolders } from '../places/place-rules.js';
import { FilesError } from '../engine/engine-verdict.js';
import { MAX_OUTPUT_BYTES, refusedOutputs, templateText } from '../../outputs.js';
import type { ContainerSpec } from '../../runtime.js';

/** How often a call whose connection broke is made, at most. */
export const PUT_TRIES = 3;

/**
 * Puts the files of a run into a created container, and gives it its empty folders. Repeats calls whose connection broke: they
 * may be made twice.
 * @param folders that are made for the run, besides those of its mounts
 * @throws FilesError when the engine refuses files or folders of the run
 */
export async function fillContainer(
  container: Dockerode.Container,
  spec: ContainerSpec,
  folders: readonly string[],
  { startMs, retryMs }: ContainerTiming,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await withLimit(startMs, 'archive', async (abortSignal) => {
        await putInputs(container, spec, abortSignal);
        await giveFolders(container, spec, folders, abortSignal);
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
 * @param made as for {@link fillContainer}
 * @throws FilesError when the image has something else at such a path
 */
async function giveFolders(
  container: Dockerode.Container,
  { mounts, user, artifacts }: ContainerSpec,
  made: readonly string[],
  abortSignal: AbortSignal,
): Promise<void> {
  const folders = (artifacts?.folders ?? []).filter((path) => path !== '/');
  const mounted = mountedFolders(mounts, folders);
  const give = async (path: string, outer: string): Promise<void> => {
    const archive = pack();
    const name = posix.relative(outer, path);
    archive.entry({ name, type: 'directory', mode: folderMode(user), ...ownerOf(user) });
    archive.finalize();
    await put(container, archive, { path: outer, abortSignal });
  };
  for (const path of mounted) await give(path, dirname(path));
  // Podman puts into what is mounted only what is put there by its own path.
  for (const path of [...made, ...folders].filter((one) => !mounted.includes(one)))
    await give(path, [CONTAINER_FOLDER, ...mounted].find((one) => isWithin(path, one)) ?? '/');
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

/** Of a folder in which the run may write, whoever its user is. */
export function folderMode(user: string | null): number {
  return user === null ? 0o1777 : 0o755;
}

/** In extended attributes: the fields of a header hold no ids above 2097151. */
export function ownerOf(user: string | null): Pick<Header, 'pax'> {
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
  return onlyFile(archive, maxBytes, refusedOutputs);
}

/** The engine has the same status for a missing file and a missing container. */
async function noFile(container: Dockerode.Container, abortSignal: AbortSignal): Promise<null> {
  await container.inspect({ abortSignal });
  return null;
}
