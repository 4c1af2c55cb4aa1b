import { ApiError, orNull } from './api/kubernetes-api.js';
import { timeOf, type Job, type Pod, type Secret } from './api/resources.js';
import type { RemovalParts } from './job-removal.js';
import { deploymentSelector, jobName, keyOf } from './manifest/names.js';
import { ownedBy } from './manifest/secrets.js';

/** A Secret without a Job may belong to a submission that goes on, in milliseconds. */
const ORPHAN_AGE_MS = 300_000;

/** Lists names and owners without values. */
const METADATA_ONLY = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io';

/**
 * Removes what a launcher left that ended between two requests: Secrets without a Job, Secrets that the cluster would keep
 * after their Job, and pods whose Job was deleted without them.
 * @param pods whose Job is not listed
 * @returns the number of removed objects
 */
export async function removeOrphans(parts: RemovalParts, pods: readonly Pod[]): Promise<number> {
  const { api, paths, deployment, clock } = parts;
  const labelSelector = deploymentSelector(deployment);
  const secrets: Secret[] = [];
  for await (const { items = [] } of api.pages<Secret>(
    paths.secrets(),
    { labelSelector },
    undefined,
    METADATA_ONLY,
  ))
    secrets.push(...items);
  let removed = 0;
  for (const { metadata } of secrets) {
    const ageMs = clock.epochMs() - (timeOf(metadata?.creationTimestamp) ?? clock.epochMs());
    if ((metadata?.ownerReferences ?? []).length > 0 || ageMs < ORPHAN_AGE_MS) continue;
    const path = paths.secrets(metadata?.name);
    const job = await findJob(metadata?.labels);
    if (job !== null) await orNull(api.merge(path, ownedBy(job)));
    else if (
      await deleteUnchanged(path, {
        preconditions: { uid: metadata?.uid, resourceVersion: metadata?.resourceVersion },
      })
    )
      removed += 1;
  }
  for (const { metadata } of pods) {
    if (metadata?.deletionTimestamp !== undefined || (await findJob(metadata?.labels)) !== null) continue;
    if (await api.delete(paths.pods(metadata?.name))) removed += 1;
  }
  return removed;

  /** A Secret that a submission has renewed since the list stays. */
  async function deleteUnchanged(path: string, options: object): Promise<boolean> {
    try {
      return await api.delete(path, options);
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) return false;
      throw error;
    }
  }

  async function findJob(labels: Readonly<Record<string, string>> | undefined): Promise<Job | null> {
    const key = keyOf(labels);
    return key === null ? null : orNull(api.get<Job>(paths.jobs(jobName(key))));
  }
}
