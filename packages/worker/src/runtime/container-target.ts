import { posix } from 'node:path';

/** Where a container has folders of its engine, of the kernel and of the worker. */
const RESERVED = ['/dev', '/proc', '/sys', '/longshore'] as const;

/**
 * Whether nothing of a run may be mounted, unpacked or started at a path of its container: it is no plain absolute path, or is or
 * is in a folder that the container has from others. Links are not followed: ask for each path that a link leads to.
 */
export function isReservedTarget(path: string): boolean {
  if (!path.startsWith('/') || posix.normalize(path) !== path || path === '/') return true;
  return RESERVED.some((reserved) => path === reserved || path.startsWith(`${reserved}/`));
}
