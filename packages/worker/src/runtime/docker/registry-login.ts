import { createHash } from 'node:crypto';
import { RunFault } from '../runtime.js';
import { NO_MASK, SecretMask } from '../../secrets/secret-mask.js';
import type { RegistryLogin } from '../../service-api/service-api.js';
import { DEFAULT_REGISTRY, localName, type ImageReference } from './image-reference.js';

/** Repository of the names that mark local images which were pulled with a login. */
const PRIVATE = 'longshore-private';

/** Other names of the default registry. */
const DEFAULT_ALIASES: ReadonlySet<string> = new Set(['index.docker.io', 'registry-1.docker.io']);

/**
 * The login as the engine takes it. It is sent to the registry for which it was made and to no other.
 * @throws RunFault when the image is from another registry
 */
export function engineLogin(
  reference: ImageReference,
  { server, username, password }: RegistryLogin,
): object {
  if (hostOf(server) !== hostOf(reference.registry ?? DEFAULT_REGISTRY)) {
    const message = `Image '${localName(reference)}' cannot be pulled: its pull secret is for another registry`;
    throw new RunFault(message, { reported: 'image' });
  }
  return { username, password, serveraddress: server };
}

/** Hides the login in what an engine or a registry says. */
export function maskOf(login: RegistryLogin | null): SecretMask {
  if (login === null) return NO_MASK;
  const { username, password } = login;
  return new SecretMask([password, Buffer.from(`${username}:${password}`).toString('base64')]);
}

/** A name of a local image that marks others as private. */
export interface PrivateMark {
  readonly repo: string;
  readonly tag: string;
}

/** A second name for a local image of that name. It tells every worker of the engine that the image needs a login. */
export function privateMark(reference: ImageReference): PrivateMark {
  return markOf(localName(reference));
}

/**
 * A name that an engine has once it pulled an image of the repository with a login. A newer image takes the second name of an
 * older one away, which then is still there by its digest.
 */
export function privateRepositoryMark({ registry, path }: ImageReference): PrivateMark {
  return markOf(`${hostOf(registry ?? DEFAULT_REGISTRY)}/${path.replace(/^library\//, '')}`);
}

function markOf(name: string): PrivateMark {
  return { repo: PRIVATE, tag: createHash('sha256').update(name).digest('hex').slice(0, 32) };
}

/** @param names all names of a local image */
export function isPrivate(names: readonly string[] | null): boolean {
  return (names ?? []).some((name) => name.includes(`${PRIVATE}:`));
}

/** Host and port of a registry's name or URL. */
function hostOf(server: string): string {
  const host = server
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/\/.*$/, '');
  return DEFAULT_ALIASES.has(host) ? DEFAULT_REGISTRY : host;
}
