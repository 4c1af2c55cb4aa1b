import { lengthWithin, NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';
import { arePlainParts } from '@longshore/common/path-parts';

/** The name of an artifact. */
export const ARTIFACT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** The artifact that has outputs which are too large for the run. */
export const LARGE_OUTPUTS = 'outputs.json';

export const NAME_RULE = '1 to 128 letters, digits, ".", "_" and "-", beginning with a letter or a digit';

const MAX_KEY_BYTES = 1024;

/** What is wrong with the name of an artifact of a run, which may be one of the files of a pattern. */
export function artifactNameProblem(name: unknown, at: string): string | undefined {
  const [first = '', ...rest] = typeof name === 'string' ? name.split('/') : [];
  const isName = ARTIFACT_NAME.test(first) && (rest.length === 0 || areParts(rest));
  return isName && lengthWithin(String(name), 1, MAX_KEY_BYTES)
    ? undefined
    : `${at} must be the name of an artifact: ${NAME_RULE}`;
}

/** What is wrong with a key of a store in which nothing is to be replaced. */
export function keyProblem(key: string, at: string): string | undefined {
  const parts = key.endsWith('/') ? key.slice(0, -1) : key;
  return areParts(parts.split('/')) && Buffer.byteLength(key) <= MAX_KEY_BYTES
    ? undefined
    : `${at} must be a key of at most ${MAX_KEY_BYTES} bytes without control characters and parts that are empty, . or ..`;
}

/** Whether all are names of files and folders that can be stored. */
export function areParts(parts: readonly string[]): boolean {
  return (
    arePlainParts(parts) && parts.every((part) => NO_CONTROL_CHARACTERS.test(part) && part.isWellFormed())
  );
}
