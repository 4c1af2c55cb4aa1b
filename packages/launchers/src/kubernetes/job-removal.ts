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
  /** Grace period that pods are made with, in seconds. */
  readonly stopGraceSeconds: number;
}

/**
 * Deletes the Job of an attempt, its pods and its Secrets, and waits until they are gone. Pods end with SIGTERM and, after the
 * grace period, with SIGKILL. A pod that is there for `LOST_NODE_MS` more is deleted without its node: a container on a node
 * that is cut off can go on, and nothing in the cluster can tell.
 * @param signal ends the wait
 */
export async function removeJob(
  parts: RemovalParts,
  key: JobKey,
  graceSeconds: number,
  signal: AbortSignal = NEVER,
): Promise<void> {
  const { api, paths, deployment, clock } = parts;
  // 0 would delete the pod without waiting for its container.
  const gracePeriodSeconds = Math.max(1, Math.ceil(graceSeconds));
  const labelSelector = attemptSelector(deployment, key);
  const listPods = () => api.list<Pod>(paths.pods(), { labelSelector });
  const deletePods = (pods: readonly Pod[], seconds: number) =>
    pods.map(({ metadata }) => api.delete(paths.pods(metadata?.name), { gracePeriodSeconds: seconds }));
  // The Job first: it would start another pod.
  await api.delete(paths.jobs(jobName(key)), { propagationPolicy: 'Foreground' });
  await Promise.all(deletePods((await listPods()).items, gracePeriodSeconds));
  // The cluster deletes the pods, too, with the grace period that they were made with.
  const forceAtMs =
    clock.nowMs() + Math.max(gracePeriodSeconds, parts.stopGraceSeconds) * 1000 + LOST_NODE_MS;
  const backoff = new Backoff(POLL, Math.random);
  while (!signal.aborted) {
    const job = await orNull(api.get<Job>(paths.jobs(jobName(key))));
    const { items: pods } = await listPods();
    if (pods.length === 0 && job === null) break;
    const isLate = clock.nowMs() >= forceAtMs;
    const left = isLate ? pods : pods.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
    await Promise.all(deletePods(left, isLate ? 0 : gracePeriodSeconds));
    await clock.sleep(backoff.nextMs(), signal);
  }
  await Promise.all([jobName(key), pullSecretName(key)].map((name) => api.delete(paths.secrets(name))));
}
