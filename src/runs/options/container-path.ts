import { keyPath } from '../../common/http/validation/problems.js';

const MAX_LENGTH = 512;

/** Where the engine and the worker have their own files. */
const RESERVED = ['/longshore', '/proc', '/sys', '/dev'] as const;

/** What the path of something that is put into a container must be. */
const RULE = `an absolute path of at most ${MAX_LENGTH} characters without control characters, colons and parts that are empty, . or .., not / and not in ${RESERVED.join(', ')}`;

/**
 * Why paths cannot be those of files in a container, in words; undefined: they can. None may be in another one.
 * @param at the member of the request that has them as keys
 */
export function containerPathsProblem(paths: readonly string[], at: string): string | undefined {
  const wrong = paths.find((path) => !isContainerPath(path));
  if (wrong !== undefined) return `${keyPath(at, wrong)} must have as name ${RULE}`;
  const inner = paths.find((path) => ancestorsOf(path).some((ancestor) => paths.includes(ancestor)));
  return inner === undefined ? undefined : `${keyPath(at, inner)} must not be in another path`;
}

function isContainerPath(path: string): boolean {
  const [root, ...parts] = path.split('/');
  return (
    root === '' &&
    parts.length > 0 &&
    Array.from(path).length <= MAX_LENGTH &&
    path.isWellFormed() &&
    // oxlint-disable-next-line no-control-regex -- paths contain neither them nor, for Kubernetes, a colon
    !/[\x00-\x1f\x7f-\x9f:]/.test(path) &&
    parts.every((part) => part !== '' && part !== '.' && part !== '..') &&
    RESERVED.every((reserved) => path !== reserved && !path.startsWith(`${reserved}/`))
  );
}

/** The folders that a path is in, without the root. */
function ancestorsOf(path: string): string[] {
  const parts = path.split('/').slice(1, -1);
  return parts.map((_, index) => `/${parts.slice(0, index + 1).join('/')}`);
}
