import { readFile, stat } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { errorCode } from '@longshore/common/errors';
import { placeProblem } from '@longshore/worker/runtime/container-places';
import { parseImageReference } from '@longshore/worker/runtime/docker/images/image-reference';
import { RunFault } from '@longshore/worker/runtime/runtime';

const MAX_CONFIG_BYTES = 2 ** 20;

/** An image as a folder, and what its configuration says. */
export interface ImageFolder {
  readonly path: string;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  /** `NAME=VALUE`. */
  readonly env: readonly string[];
  readonly workDir: string;
  /** Numeric ids; null: those of root. */
  readonly user: { readonly uid: number; readonly gid: number } | null;
}

/**
 * Finds the image `registry/a/b:tag` as the folder `b`, or `b:tag` if there is one. Beside the folder, `b.json` may hold the
 * image's configuration, as `skopeo inspect --config` prints it.
 * @throws RunFault `image` when there is no such folder, or its configuration cannot be used; `error` for its working directory
 * @throws Error when the folder of images cannot be read
 */
export async function findImageFolder(imagesDir: string, image: string): Promise<ImageFolder> {
  const { name, tag } = parseImageReference(image);
  for (const candidate of tag === null ? [name] : [`${name}:${tag}`, name]) {
    const path = join(imagesDir, candidate);
    if (await isFolder(path)) return { path, ...(await readConfig(`${path}.json`, image)) };
  }
  throw new RunFault(`Image '${image}' was not found: SERVICE_WORKER_SLURM_IMAGES has no folder '${name}'`, {
    reported: 'image',
  });
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

async function readConfig(path: string, image: string): Promise<Omit<ImageFolder, 'path'>> {
  let text = '{}';
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  const config = parseConfig(text.slice(0, MAX_CONFIG_BYTES));
  if (config === null) {
    throw new RunFault(`Image '${image}' cannot be run: its configuration is no JSON of an image`, {
      reported: 'image',
    });
  }
  const { WorkingDir, User: user } = config;
  const workDir = workDirOf(WorkingDir);
  if (workDir !== '/' && placeProblem(workDir) !== null)
    throw new RunFault(`Image '${image}' cannot be run: its working directory '${workDir}' is not its own`);
  return {
    entrypoint: textsOf(config['Entrypoint']),
    cmd: textsOf(config['Cmd']),
    env: textsOf(config['Env']).filter((pair) => /^[A-Za-z_.-][A-Za-z0-9_.-]*=[^\0]*$/s.test(pair)),
    workDir,
    user: typeof user === 'string' ? parseUser(user) : null,
  };
}

function workDirOf(text: unknown): string {
  if (typeof text !== 'string' || !text.startsWith('/')) return '/';
  return posix.normalize(text).replace(/(?<=.)\/$/, '');
}

function parseConfig(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    if (!isJsonObject(value)) return null;
    const { config = value } = value;
    return isJsonObject(config) ? config : null;
  } catch {
    return null;
  }
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((text) => typeof text === 'string') : [];
}

/** Names of users would need the image's own list. */
function parseUser(text: string): ImageFolder['user'] {
  const [, uid, gid = '0'] = /^(\d{1,9})(?::(\d{1,9}))?$/.exec(text) ?? [];
  return uid === undefined ? null : { uid: Number(uid), gid: Number(gid) };
}

function isMissing(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR'].includes(errorCode(error));
}
