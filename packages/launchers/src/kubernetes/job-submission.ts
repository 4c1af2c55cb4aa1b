import type { JobSpec } from '../launcher/engine.js';
import { RunFault } from '@longshore/worker/runtime/runtime';
import { ApiError, asEngineFault, isDenial, orNull } from './api/kubernetes-api.js';
import type { Job, Secret } from './api/resources.js';
import type { RemovalParts } from './job-removal.js';
import { jobLabels, jobManifest, type JobContext } from './manifest/job-manifest.js';
import { jobName } from './manifest/names.js';
import { ownedBy, secretManifests } from './manifest/secrets.js';

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
  const secrets = secretManifests(spec, jobLabels(spec, context));
  const manifest = jobManifest(spec, context);
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
  return status === 422 || status === 413 || status === 400 || (status === 403 && isDenial(message));
}

/** Whether the API server has decided: the request created nothing. */
function isDecided(error: unknown): boolean {
  const status = error instanceof ApiError ? error.status : 0;
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}
