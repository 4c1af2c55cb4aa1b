import { Backoff } from '@longshore/common/backoff';
import type { Clock } from '@longshore/worker/process/clock';
import type { JobKey } from '../launcher/engine.js';
import { orNull, type KubernetesApi } from './api/kubernetes-api.js';
import type { Job, Paths, Pod } from './api/resources.js';
import { attemptSelector, jobName, pullSecretName } from './manifest/names.js';

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
