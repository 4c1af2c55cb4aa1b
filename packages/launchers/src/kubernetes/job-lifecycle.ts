import type { JobSpec, JobKey } from '../launcher/engine.js';
import { RunFault } from '@longshore/worker/runtime/runtime';
import { ApiError, asEngineFault, isDenial, orNull, type KubernetesApi } from './api/kubernetes-api.js';
import { type Job, type Secret, type Paths, type Pod, timeOf } from './api/resources.js';
import { checkSize, jobLabels, jobManifest, type JobContext } from './manifest/job-manifest.js';
import { checkImage } from './manifest/mounts.js';
import { jobName, attemptSelector, pullSecretName, deploymentSelector, keyOf } from './manifest/names.js';
import { ownedBy, secretManifests } from './manifest/secrets.js';
import { Backoff } from '@longshore/common/backoff';
import type { Clock } from '@longshore/worker/process/clock';

/**
 * Creates the Secrets of an attempt and then its Job, and makes the Job the owner of the Secrets. Finds the Job when there is
 * one. After a crash in between, a repetition begins again, and Secrets that stay alone are removed as orphans.
 * @throws RunFault when the API server refuses the run itself
 * @throws EngineFault when it refuses jobs now, or does not answer
 */
export async function submitJob(
  { api, paths }: Pick<RemovalParts, 'api' | 'paths'>,
  spec: JobSpec,
  context: JobContext,
): Promise<Job> {
  checkImage(spec, context.settings.mountImages);
  const secrets = secretManifests(spec, jobLabels(spec, context), context.fetchNetworks);
  const manifest = jobManifest(spec, context);
  checkSize(manifest);
  let created: Job | null = null;
  try {
    for (const secret of secrets) await createSecret(secret);
    const job = await createJob();
    created = job;
    for (const secret of secrets) await giveTo(job, secret);
    return job;
  } catch (error) {
    if (!(error instanceof ApiError)) throw asEngineFault(error, 'take the run');
    // Other failures leave it open whether there is a Job, which needs its Secrets.
    if (created === null && isDecided(error)) await removeSecrets();
    if (isRefusal(error))
      throw new RunFault(`Kubernetes refuses the run: ${error.message}`, { cause: error });
    throw asEngineFault(error, 'take the run');
  }

  /** A Secret that is there may be used by a pod already, or be of a submission that was not finished: its values are old. */
  async function createSecret(secret: Secret): Promise<void> {
    try {
      await api.create(paths.secrets(), secret);
    } catch (error) {
      if (!(error instanceof ApiError) || error.reason !== 'AlreadyExists') throw error;
      await api.merge(paths.secrets(secret.metadata?.name), { data: secret.data });
    }
  }

  /** A slow submission can lose its Secret: without a Job it looks like an orphan. */
  async function giveTo(job: Job, secret: Secret): Promise<void> {
    const { metadata } = secret;
    const owner = ownedBy(job);
    if ((await orNull(api.merge(paths.secrets(metadata?.name), owner))) !== null) return;
    await createSecret({ ...secret, metadata: { ...metadata, ...owner.metadata } });
  }

  async function createJob(): Promise<Job> {
    try {
      return await api.create<Job>(paths.jobs(), manifest);
    } catch (error) {
      // A quota can refuse before the API server sees that there is the Job.
      const found = isDecided(error) ? await orNull(api.get<Job>(paths.jobs(jobName(spec)))) : null;
      if (found !== null) return found;
      throw error;
    }
  }

  async function removeSecrets(): Promise<void> {
    try {
      for (const { metadata } of secrets) await api.delete(paths.secrets(metadata?.name));
    } catch {
      // They are removed as orphans.
    }
  }
}

/** Whether the run itself is refused, and not jobs of now. */
function isRefusal({ status, message }: ApiError): boolean {
  return (
    status === 422 ||
    status === 413 ||
    status === 400 ||
    (status === 403 && isDenial(message)) ||
    TOO_LARGE.test(message)
  );
}

/** What API servers pass on of their database, with the status 500. */
const TOO_LARGE = /\brequest is too large\b|\bmessage larger than max\b/;

/** Whether the API server has decided: the request created nothing. */
function isDecided(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  const { status, message } = error;
  return (status >= 400 && status < 500 && status !== 408 && status !== 429) || TOO_LARGE.test(message);
}

const NEVER = new AbortController().signal;

/** Time after the grace period at which a pod that is still there is on a lost node, in milliseconds. */
const LOST_NODE_MS = 30_000;

const POLL = { firstMs: 200, maxMs: 2_000 };

export interface RemovalParts {
  readonly api: KubernetesApi;
  readonly paths: Paths;
  readonly deployment: string;
  readonly clock: Clock;
}

/**
 * Deletes the Job of an attempt, its pods and its Secrets, and waits until they are gone. Pods end with SIGTERM and, after the
 * grace period that they were made with, with SIGKILL. A pod that is there for `LOST_NODE_MS` more is deleted without its
 * node: a container on a node that is cut off can go on, and nothing in the cluster can tell.
 * @param signal ends the wait
 */
export async function removeJob(
  parts: RemovalParts,
  key: JobKey,
  signal: AbortSignal = NEVER,
): Promise<void> {
  const { api, paths, deployment, clock } = parts;
  const labelSelector = attemptSelector(deployment, key);
  const listPods = () => api.list<Pod>(paths.pods(), { labelSelector });
  // The Job first: it would start another pod.
  await api.delete(paths.jobs(jobName(key)), { propagationPolicy: 'Foreground' });
  const startMs = clock.nowMs();
  const backoff = new Backoff(POLL, Math.random);
  while (!signal.aborted) {
    const job = await orNull(api.get<Job>(paths.jobs(jobName(key))));
    const { items: pods } = await listPods();
    if (pods.length === 0 && job === null) break;
    const elapsedMs = clock.nowMs() - startMs;
    await Promise.all(
      pods.map(async ({ metadata, spec }) => {
        const graceMs = (spec?.terminationGracePeriodSeconds ?? 0) * 1000;
        if (elapsedMs >= graceMs + LOST_NODE_MS)
          await api.delete(paths.pods(metadata?.name), { gracePeriodSeconds: 0 });
        else if (metadata?.deletionTimestamp === undefined) await api.delete(paths.pods(metadata?.name));
      }),
    );
    await clock.sleep(backoff.nextMs(), signal);
  }
  await Promise.all([jobName(key), pullSecretName(key)].map((name) => api.delete(paths.secrets(name))));
}

/**
 * Shortens the grace of an attempt's pods to a second, also of those that are being deleted: their node still tells when they
 * have ended, unlike after a deletion with no grace.
 */
export async function killJob({ api, paths, deployment }: RemovalParts, key: JobKey): Promise<void> {
  const { items } = await api.list<Pod>(paths.pods(), { labelSelector: attemptSelector(deployment, key) });
  await Promise.all(
    items.map(({ metadata }) => api.delete(paths.pods(metadata?.name), { gracePeriodSeconds: 1 })),
  );
}

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
