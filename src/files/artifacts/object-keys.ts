/** The part of the store that has what attempts leave. */
export const RUNS_PREFIX = 'runs/';
/** The part that has what clients upload. */
export const FILES_PREFIX = 'files/';

/** What an object of the store is. */
export type ObjectOwner =
  | { readonly kind: 'file'; readonly id: string }
  | { readonly kind: 'artifact'; readonly run: string; readonly attempt: number; readonly name: string };

/** What the keys of all attempts of a run begin with. */
export function attemptsPrefix(run: string): string {
  return `${RUNS_PREFIX}${run}/`;
}

/** The key below which an attempt leaves what it leaves. */
export function attemptPrefix(run: string, attempt: number): string {
  return `${RUNS_PREFIX}${run}/${attempt}`;
}

/** The key of an artifact. */
export function artifactKey({
  run,
  attempt,
  name,
}: Omit<Extract<ObjectOwner, { kind: 'artifact' }>, 'kind'>): string {
  return `${attemptPrefix(run, attempt)}/${name}`;
}

/** What has a key; undefined: nothing of ours. */
export function ownerOf(key: string): ObjectOwner | undefined {
  if (key.startsWith(FILES_PREFIX)) return { kind: 'file', id: key.slice(FILES_PREFIX.length) };
  const [, run, attempt, name] = /^runs\/([0-9a-f-]{36})\/([1-9]\d{0,3})\/(.+)$/s.exec(key) ?? [];
  if (run === undefined || name === undefined) return undefined;
  return { kind: 'artifact', run, attempt: Number(attempt), name };
}

/** The key of an artifact in a store by name; of one of a pattern, below the folder. */
export function keyIn(key: string, name: string): string {
  return key.endsWith('/') ? key + name.slice(name.indexOf('/') + 1) : key;
}
