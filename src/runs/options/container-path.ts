import { lengthWithin, NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';
import { arePlainParts } from '@longshore/common/path-parts';
import { keyPath } from '../../common/http/validation/problems.js';

const MAX_LENGTH = 512;

/** Where the engine and the worker have their own files. */
const RESERVED = ['/longshore', '/proc', '/sys', '/dev'] as const;

/** What the path of something that is put into a container must be. */
const RULE = `an absolute path of at most ${MAX_LENGTH} characters without control characters, colons and parts that are empty, . or .., not / and not in ${RESERVED.join(', ')}`;

const WORKDIR_RULE = RULE.replace('not / and ', '');

/** What the path of a folder within a volume must be. */
const RELATIVE_RULE = `a relative path of at most ${MAX_LENGTH} characters without control characters and parts that are empty, . or ..`;

/**
 * Why paths cannot be those of files in a container, in words; undefined: they can. None may be in another one.
 * @param at the member of the request that has them as keys
 */
export function containerPathsProblem(paths: readonly string[], at: string): string | undefined {
  const wrong = paths.find((path) => !isContainerPath(path));
  if (wrong !== undefined) return `${keyPath(at, wrong)} must have as name ${RULE}`;
  const inner = paths.find((path) => paths.some((other) => other !== path && isWithin(path, other)));
  return inner === undefined ? undefined : `${keyPath(at, inner)} must not be in another path`;
}

/** Why a path cannot be that of a folder in a container, in words; undefined: it can. */
export function containerPathProblem(path: string, at: string): string | undefined {
  return isContainerPath(path) ? undefined : `${at} must be ${RULE}`;
}

/** Why a path cannot be that of the working directory, in words; undefined: it can. */
export function workdirProblem(path: string, at: string): string | undefined {
  return path === '/' || isContainerPath(path) ? undefined : `${at} must be ${WORKDIR_RULE}`;
}

/** Why a path cannot be that of a folder within a volume, in words; undefined: it can. */
export function relativePathProblem(path: string, at: string): string | undefined {
  return hasPlainParts(path, path.split('/')) ? undefined : `${at} must be ${RELATIVE_RULE}`;
}

/** Whether a path is another one or in it. */
export function isWithin(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other}/`);
}

/** Whether one of two paths is, or is in, the other one. */
export function overlap(path: string, other: string): boolean {
  return isWithin(path, other) || isWithin(other, path);
}

function isContainerPath(path: string): boolean {
  const [root, ...parts] = path.split('/');
  return (
    root === '' &&
    // Kubernetes takes no colon.
    !path.includes(':') &&
    hasPlainParts(path, parts) &&
    !RESERVED.some((reserved) => isWithin(path, reserved))
  );
}

function hasPlainParts(path: string, parts: readonly string[]): boolean {
  return (
    parts.length > 0 &&
    lengthWithin(path, 0, MAX_LENGTH) &&
    path.isWellFormed() &&
    NO_CONTROL_CHARACTERS.test(path) &&
    arePlainParts(parts)
  );
}
