import { timeOf, type ContainerStatus, type Pod } from '../api/resources.js';
import { INPUTS_CONTAINER, OUTPUTS_CONTAINER, RUN_CONTAINER } from '../manifest/names.js';

/** How long a step that takes seconds may take, in milliseconds. */
const SILENCE_MS = 600_000;
const LIMIT = `${SILENCE_MS / 60_000} minutes`;

/**
 * Why a pod counts as lost whose node does not say what became of it, although nothing is known that it waits for; null: it does not.
 * A node reports a pod as soon as it has it, and the containers of the launcher take seconds. How long the image of the run is pulled
 * and how long the run takes is not limited here.
 */
export function silenceOf({ status }: Pod, nowMs: number): string | null {
  const { conditions = [], initContainerStatuses = [], containerStatuses = [] } = status ?? {};
  const all = [...initContainerStatuses, ...containerStatuses];
  const hasLasted = (since: string | undefined): boolean => nowMs - (timeOf(since) ?? nowMs) >= SILENCE_MS;
  const scheduled = conditions.find((one) => one.type === 'PodScheduled' && one.status === 'True');
  if (all.length === 0 && hasLasted(scheduled?.lastTransitionTime))
    return `Its node has said nothing of its pod for ${LIMIT}`;
  for (const name of [INPUTS_CONTAINER, OUTPUTS_CONTAINER]) {
    if (hasLasted(stateOf(all, name)?.running?.startedAt))
      return `The container '${name}' of the launcher has not ended for ${LIMIT}`;
  }
  const outputs = stateOf(all, OUTPUTS_CONTAINER);
  const isOpen = outputs?.running === undefined && outputs?.terminated === undefined;
  return isOpen && hasLasted(stateOf(all, RUN_CONTAINER)?.terminated?.finishedAt)
    ? `Its node has said nothing for ${LIMIT} after the end of the container`
    : null;
}

function stateOf(statuses: readonly ContainerStatus[], name: string): ContainerStatus['state'] {
  return statuses.find((status) => status.name === name)?.state;
}
