import { RunFault } from '../../runtime.js';
import { NO_MASK, SecretMask } from '../../../secrets/secret-mask.js';
import type { RegistryLogin } from '../../../service-api/service-api.js';
import { DEFAULT_REGISTRY, localName, type ImageReference } from './image-reference.js';

/** The user name by which Docker's credential helpers mark a token instead of a password. */
const IDENTITY_TOKEN = '<token>';

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
  if (registryHost(server) !== registryHost(reference.registry ?? DEFAULT_REGISTRY)) {
    const message = `Image '${localName(reference)}' cannot be pulled: its pull secret is for another registry`;
    throw new RunFault(message, { reported: 'image' });
  }
  if (username === IDENTITY_TOKEN) return { identitytoken: password, serveraddress: server };
  return { username, password, serveraddress: server };
}

/** Hides the login in what an engine or a registry says. */
export function maskOf(login: RegistryLogin | null): SecretMask {
  if (login === null) return NO_MASK;
  const { username, password } = login;
  return new SecretMask([password, Buffer.from(`${username}:${password}`).toString('base64')]);
}

/** Host and port of a registry's name or URL. */
export function registryHost(server: string): string {
  const host = server
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/\/.*$/, '');
  return DEFAULT_ALIASES.has(host) ? DEFAULT_REGISTRY : host;
}
