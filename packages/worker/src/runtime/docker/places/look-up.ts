import { posix } from 'node:path';
import type Dockerode from 'dockerode';
import { isJsonObject } from '@longshore/common/json/json-value';
import { engineStatus, withLimit } from '../engine/docker-engine.js';
import type { Found, Lookup } from './follow.js';

/** Bits of Go's file modes. */
const GO_MODE = { folder: 2 ** 31, link: 2 ** 27, other: 2 ** 26 + 2 ** 25 + 2 ** 24 + 2 ** 21 + 2 ** 19 };

const STAT_HEADER = 'x-docker-container-path-stat';

/**
 * Looks into a container by the engine's archive call, which follows links in the folders of a path. The engine mounts for it
 * what the container mounts. In a container that is gone everything is missing, also `/`.
 */
export async function lookUp(
  container: Dockerode.Container,
  path: string,
  abortSignal: AbortSignal,
): Promise<Found> {
  try {
    const answer: unknown = await container.infoArchive({ path, abortSignal });
    return readStat(Reflect.get(Object(Reflect.get(Object(answer), 'headers')), STAT_HEADER), path);
  } catch (error) {
    if (engineStatus(error) === 404) return { kind: 'missing' };
    throw error;
  }
}

/** @param limitMs of each call, in milliseconds */
export function lookupIn(container: Dockerode.Container, limitMs: number): Lookup {
  return (path) => withLimit(limitMs, 'archive', (abortSignal) => lookUp(container, path, abortSignal));
}

function readStat(header: unknown, path: string): Found {
  const stat: unknown = JSON.parse(Buffer.from(String(header), 'base64').toString());
  const { mode, linkTarget = '' } = isJsonObject(stat) ? stat : {};
  if (typeof mode !== 'number' || typeof linkTarget !== 'string')
    throw new Error(`the container engine does not say what is at ${path}`);
  const has = (bits: number): boolean => (BigInt(mode) & BigInt(bits)) !== 0n;
  // Podman gives the path itself as the target of what is no link, `/.` for `/`.
  if (has(GO_MODE.link) || (linkTarget !== '' && posix.normalize(linkTarget) !== path))
    return { kind: 'link', target: linkTarget };
  return { kind: has(GO_MODE.folder) ? 'folder' : has(GO_MODE.other) ? 'other' : 'file' };
}
