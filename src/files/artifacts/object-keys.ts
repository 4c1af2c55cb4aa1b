import type { ArtifactEntity } from '../../database/entities/artifact.entity.js';
import { FILES_PREFIX } from '../uploads/file.repository.js';
import { isRunId } from '../../runs/machine/new-id.js';
import type { ArtifactTarget } from '../../runs/options/run-artifacts.js';
import type { FileStore } from '../stores/file-store.js';
import type { Stores } from '../stores/stores.js';
import { targetOf } from './reported-artifacts.js';

/** The part of the store that has what attempts leave. */
export const RUNS_PREFIX = 'runs/';

/** What an object of the store is. */
export type ObjectOwner =
  | { readonly kind: 'file'; readonly id: string }
  | { readonly kind: 'artifact'; readonly runId: string; readonly attempt: number; readonly name: string };

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
  runId,
  attempt,
  name,
}: Pick<ArtifactEntity, 'runId' | 'attempt' | 'name'>): string {
  return `${attemptPrefix(runId, attempt)}/${name}`;
}

/** What has a key; undefined: nothing of ours. */
export function ownerOf(key: string): ObjectOwner | undefined {
  if (key.startsWith(FILES_PREFIX)) {
    const id = key.slice(FILES_PREFIX.length);
    return isRunId(id) ? { kind: 'file', id } : undefined;
  }
  const [, runId, attempt, name] = /^runs\/([^/]+)\/([1-9]\d{0,3})\/(.+)$/s.exec(key) ?? [];
  if (runId === undefined || name === undefined || !isRunId(runId)) return undefined;
  return { kind: 'artifact', runId, attempt: Number(attempt), name };
}

/** An artifact of an attempt, and where it goes: `store` and `key` are null for the store of the service. */
export type PlacedArtifact = Pick<ArtifactEntity, 'runId' | 'attempt' | 'name' | 'store' | 'key'>;

/** Where an artifact is to go, by what its run says. */
export function placeIn(
  out: Readonly<Record<string, ArtifactTarget>>,
  artifact: Pick<ArtifactEntity, 'runId' | 'attempt' | 'name'>,
): PlacedArtifact {
  const { name } = artifact;
  const to = targetOf(name, out)?.to;
  if (to === undefined) return { ...artifact, store: null, key: null };
  const key = to.key.endsWith('/') ? to.key + name.slice(name.indexOf('/') + 1) : to.key;
  return { ...artifact, store: to.store, key };
}

/** The store of an artifact, and its key there; undefined: the store is no longer set. @throws FilesNotConfigured */
export function objectOf(
  stores: Stores,
  artifact: PlacedArtifact,
): { readonly store: FileStore; readonly key: string } | undefined {
  const { store, key } = artifact;
  if (store === null || key === null) return { store: stores.required(), key: artifactKey(artifact) };
  const named = stores.named(store);
  return named && { store: named.store, key };
}
