import { timeOf, type ContainerStatus, type Pod } from '../api/resources.js';
import { missingVolume, unusableFolder } from '../manifest/mounts.js';
import { INPUTS_CONTAINER, OUTPUTS_CONTAINER, RUN_CONTAINER } from '../manifest/names.js';

/** Why a container of a pod cannot start now. */
export interface WaitProblem {
  /** Name of the container. */
  readonly container: string;
  readonly cause: 'image' | 'error' | 'infrastructure';
  /** Fit for the run's error_message. */
  readonly message: string;
  /** Whether the message only says that the engine waits until it tries again. */
  readonly isBackOff: boolean;
  /** Whether it may pass: never, as busy nodes do, or as registries do. */
  readonly grace: 'none' | 'create' | 'pull';
  /** When the node began to start the container, in milliseconds since 1970; null: not known. */
  readonly startingSinceMs: number | null;
}

const NO_GRACE: readonly string[] = ['InvalidImageName', 'ErrImageNeverPull'];
const BACK_OFF = 'ImagePullBackOff';
const PULL: readonly string[] = [
  'ErrImagePull',
  BACK_OFF,
  'RegistryUnavailable',
  'ImageInspectError',
  'SignatureValidationFailed',
];
const CREATE: readonly string[] = ['CreateContainerConfigError', 'CreateContainerError', 'RunContainerError'];

/** What keeps the pod's next container from starting; null: nothing that is known to fail. */
export function waitProblemOf(pod: Pod): WaitProblem | null {
  const { initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
  const statuses = [...initContainerStatuses, ...containerStatuses];
  const status = statuses.find(({ state }) => isProblem(state?.waiting?.reason));
  const reason = status?.state?.waiting?.reason;
  if (status === undefined || reason === undefined) return volumeProblemOf(pod);
  const why = status.state?.waiting?.message;
  const isImage = !CREATE.includes(reason);
  const folderOf = isImage ? undefined : unusableFolder(why);
  const isUsers = status.name === RUN_CONTAINER || folderOf !== undefined;
  const what = isImage ? `The image '${status.image}' cannot be pulled` : 'The container cannot be created';
  return {
    container: status.name,
    cause: isUsers ? (isImage ? 'image' : 'error') : 'infrastructure',
    message:
      folderOf === undefined
        ? [what, reason, why].filter((part) => part !== undefined && part !== '').join(': ')
        : `A part of the sub_path of the volume '${folderOf}' is a link or no folder, or cannot be created`,
    isBackOff: reason === BACK_OFF,
    grace: NO_GRACE.includes(reason) ? 'none' : isImage ? 'pull' : 'create',
    startingSinceMs: startingSince(pod, status, statuses),
  };
}

/** Null: its volumes exist. */
function volumeProblemOf({ spec, status }: Pod): WaitProblem | null {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  const volume = scheduled?.status === 'False' ? missingVolume(spec, scheduled.message) : undefined;
  if (volume === undefined) return null;
  return {
    container: INPUTS_CONTAINER,
    cause: 'infrastructure',
    message: `The volume '${volume}' is missing: Kubernetes does not have its claim`,
    isBackOff: false,
    grace: 'create',
    startingSinceMs: timeOf(scheduled?.lastTransitionTime),
  };
}

function isProblem(reason: string | undefined): boolean {
  return reason !== undefined && [NO_GRACE, PULL, CREATE].some((reasons) => reasons.includes(reason));
}

/** The node starts a container when the one before it has ended, the first one when the pod is bound to the node. */
function startingSince(
  pod: Pod,
  { name }: ContainerStatus,
  statuses: readonly ContainerStatus[],
): number | null {
  const order = [INPUTS_CONTAINER, RUN_CONTAINER, OUTPUTS_CONTAINER];
  const previous = statuses.find((status) => status.name === order[order.indexOf(name) - 1]);
  const scheduled = pod.status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return timeOf(previous?.state?.terminated?.finishedAt ?? scheduled?.lastTransitionTime);
}
