import { RunFault } from '../../runtime.js';

/** A container image reference in its parts. */
export interface ImageReference {
  /** Registry and path, as written: everything before tag and digest. */
  readonly repository: string;
  /** Host and port of the registry; null: not in the reference. */
  readonly registry: string | null;
  /** The repository without its registry. */
  readonly path: string;
  readonly tag: string | null;
  /** `sha256:...`, or null. */
  readonly digest: string | null;
  /** Last segment of the path. */
  readonly name: string;
}

/** Where an image without a registry in its name comes from. */
export const DEFAULT_REGISTRY = 'docker.io';

/** Another name that engines have for it. */
const LEGACY_REGISTRY = 'index.docker.io';

/** Engines read `sha256:fc9`, and 64 hexadecimal digits, as the id of a local image or its beginning. */
const ID = /^(?:sha(?:256|384|512)|[0-9a-f]{64})$/;

const MAX_REPOSITORY_LENGTH = 255;
const PATH_SEGMENT = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*$/;
const REGISTRY =
  /^(?:[a-zA-Z0-9]+(?:-+[a-zA-Z0-9]+)*(?:\.[a-zA-Z0-9]+(?:-+[a-zA-Z0-9]+)*)*|\[[a-fA-F0-9:]+\])(?::[0-9]{1,5})?$/;
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const DIGEST = /^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$/;

/**
 * Takes an image reference apart by the grammar that container engines share: `[registry/]path[:tag][@digest]`.
 * @throws RunFault that names the reference when it does not follow the grammar
 */
export function parseImageReference(image: string): ImageReference {
  const [named = '', digest = null, ...more] = image.split('@');
  const slash = named.lastIndexOf('/');
  const colon = named.indexOf(':', slash + 1);
  const repository = colon < 0 ? named : named.slice(0, colon);
  const tag = colon < 0 ? null : named.slice(colon + 1);
  const segments = repository.split('/');
  const path = hasRegistry(segments) ? segments.slice(1) : segments;
  const valid =
    more.length === 0 &&
    repository.length <= MAX_REPOSITORY_LENGTH &&
    (path.length === segments.length || REGISTRY.test(segments[0] ?? '')) &&
    path.every((segment) => PATH_SEGMENT.test(segment)) &&
    !ID.test(repository) &&
    (tag === null || TAG.test(tag)) &&
    (digest === null || DIGEST.test(digest));
  if (!valid) throw new RunFault(`'${image}' is not a valid image reference`, { reported: 'image' });
  const registry = path.length === segments.length ? null : (segments[0] ?? null);
  return { repository, registry, path: path.join('/'), tag, digest, name: path.at(-1) ?? '' };
}

/** What to ask a registry for: the digest, else the tag, else `latest` (an absent tag would mean every tag). */
export function pullSelector(reference: ImageReference): string {
  return reference.digest ?? reference.tag ?? 'latest';
}

/** The one name under which the image is looked up and started after a pull. */
export function localName(reference: ImageReference): string {
  const separator = reference.digest === null ? ':' : '@';
  return `${reference.repository}${separator}${pullSelector(reference)}`;
}

/** Registry and path as engines complete them: `busybox` and `index.docker.io/busybox` are `docker.io/library/busybox`. */
export function canonicalRepository({ registry, path }: ImageReference): string {
  const isDefault = registry === null || registry === DEFAULT_REGISTRY || registry === LEGACY_REGISTRY;
  if (!isDefault) return `${registry}/${path}`;
  return `${DEFAULT_REGISTRY}/${path.includes('/') ? '' : 'library/'}${path}`;
}

/** The local name in its complete form: two names are of the same image exactly if these are equal. */
export function canonicalName(reference: ImageReference): string {
  return localName({ ...reference, repository: canonicalRepository(reference) });
}

/** The first segment is a registry when it could not be a path: a dot, a port, `localhost`, upper case. */
function hasRegistry(segments: readonly string[]): boolean {
  const first = segments[0] ?? '';
  return (
    segments.length > 1 && (/[.:[]/.test(first) || first === 'localhost' || first !== first.toLowerCase())
  );
}
