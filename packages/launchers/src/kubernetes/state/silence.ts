import type { ContainerStatus, Pod } from '../api/resources.js';
import { INPUTS_CONTAINER, OUTPUTS_CONTAINER, RUN_CONTAINER } from '../manifest/names.js';
import { storesFiles, waitProblemOf } from './job-status.js';

/** How long a step that takes seconds may take, in milliseconds. */
const LIMIT_MS = 600_000;
const LIMIT = `${LIMIT_MS / 60_000} minutes`;

/**
 * Steps of pods that take seconds: a node reports a pod as soon as it has it, the containers of the launcher copy small files, and one
 * follows the other. A pod that stays in such a step is one whose node does not say what became of it. How long an image is pulled
 * and how long the run takes is not limited here. Times are those of this process: clocks of nodes may differ.
 */
export class QuickSteps {
  /** By the UID of the pod. */
  private readonly steps = new Map<string, { readonly why: string; readonly sinceMs: number }>();

  /** @param nowMs milliseconds since 1970 */
  see(pod: Pod, nowMs: number): void {
    const { uid = '' } = pod.metadata ?? {};
    const why = stepOf(pod);
    if (why === null) this.steps.delete(uid);
    else if (this.steps.get(uid)?.why !== why) this.steps.set(uid, { why, sinceMs: nowMs });
  }

  forget(uid: string): void {
    this.steps.delete(uid);
  }

  keepOnly(uids: ReadonlySet<string | undefined>): void {
    for (const uid of this.steps.keys()) if (!uids.has(uid)) this.steps.delete(uid);
  }

  /** Why the pod counts as lost; null: it does not. */
  silenceOf(uid: string, nowMs: number): string | null {
    const { why, sinceMs } = this.steps.get(uid) ?? { why: null, sinceMs: nowMs };
    return nowMs - sinceMs >= LIMIT_MS ? why : null;
  }
}

/** What is wrong if the pod stays as it is; null: it may stay so. */
function stepOf(pod: Pod): string | null {
  if (waitProblemOf(pod) !== null) return null;
  const { conditions = [], initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const all = [...initContainerStatuses, ...containerStatuses];
  const isScheduled = conditions.some(({ type, status }) => type === 'PodScheduled' && status === 'True');
  if (all.length === 0 && isScheduled) return `Its node has said nothing of its pod for ${LIMIT}`;
  // Files take their time, and who waits for them sees whether they move.
  const helpers = [INPUTS_CONTAINER, ...(storesFiles(pod) ? [] : [OUTPUTS_CONTAINER])];
  const helper = helpers.find((name) => stateOf(all, name)?.running !== undefined);
  if (helper !== undefined) return `The container '${helper}' of the launcher has not ended for ${LIMIT}`;
  const isStoring = storesFiles(pod) && stateOf(all, OUTPUTS_CONTAINER)?.running !== undefined;
  return stateOf(all, RUN_CONTAINER)?.terminated === undefined || isStoring
    ? null
    : `Its node has said nothing for ${LIMIT} after the end of the container`;
}

function stateOf(statuses: readonly ContainerStatus[], name: string): ContainerStatus['state'] {
  return statuses.find((status) => status.name === name)?.state;
}
