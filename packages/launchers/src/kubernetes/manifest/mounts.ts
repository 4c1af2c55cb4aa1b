import type { JobSpec } from '../../launcher/engine.js';
import {
  canonicalRepository,
  parseImageReference,
} from '@longshore/worker/runtime/docker/images/image-reference';
import { imageMatcher } from '@longshore/worker/runtime/docker/images/image-policy';
import { RunFault } from '@longshore/worker/runtime/runtime';
import { offeredVolume, type OfferedVolumes } from '@longshore/worker/settings/volumes';
import type { Container, PodSpec } from '../api/resources.js';

/** Before the number of a mount in the name of its volume; the name of the volume that it is of follows, as far as it fits. */
const VOLUME_PREFIX = 'longshore-mount';
const SCRATCH_PREFIX = 'longshore-scratch';
const MAX_NAME_LENGTH = 63;

/** Where the launcher's own container has the folders whose owners it sets. */
const OWNED_FOLDER = '/longshore-mounts';

/**
 * A node mounts at paths that a run says, and follows the links that the image has there.
 * @param patterns SERVICE_WORKER_KUBERNETES_MOUNT_IMAGES; null: every image
 * @throws RunFault when the run has mounts or files, and its image may not have any
 */
export function checkImage(
  { image, mounts, files, signedFiles }: JobSpec,
  patterns: readonly string[] | null,
): void {
  if (patterns === null || (mounts.length + files.length === 0 && signedFiles === null)) return;
  const name = canonicalRepository(parseImageReference(image));
  if (!imageMatcher(patterns)(name))
    throw new RunFault(
      `Runs of the image '${name}' may have no mounts and files: SERVICE_WORKER_KUBERNETES_MOUNT_IMAGES of this worker does not allow it`,
    );
}

export type VolumeMounts = NonNullable<Container['volumeMounts']>;

/** What the mounts of a run are in its pod. */
export interface PodMounts {
  readonly volumes: NonNullable<PodSpec['volumes']>;
  /** Of the container of the run. */
  readonly mounts: VolumeMounts;
  /** Of the container that sets owners, and its commands. */
  readonly ownedMounts: VolumeMounts;
  readonly commands: readonly string[];
}

/**
 * A claim is one volume of the pod, however often it is mounted: most nodes never start a pod that has a claim as two volumes.
 * @param reference folder that the node makes for the pod, before those of the mounts, and that nobody changes until the commands ran
 * @throws Error when the launcher does not offer a volume
 */
export function podMounts({ mounts, user }: JobSpec, offered: OfferedVolumes, reference: string): PodMounts {
  const claims = new Map<string, { readonly name: string; readonly isWritable: boolean }>();
  const parts = mounts.map((mount, index): PodMounts => {
    const { volume, path: mountPath, read_only: readOnly = false, sub_path: subPath } = mount;
    const owned = `${OWNED_FOLDER}/${index}`;
    if (volume === undefined) {
      const name = `${SCRATCH_PREFIX}-${index}`;
      return {
        volumes: [{ name, emptyDir: { sizeLimit: `${mount.scratch_mb ?? 0}Mi` } }],
        mounts: [{ name, mountPath }],
        ownedMounts: [{ name, mountPath: owned }],
        commands: [ownership(owned, user)],
      };
    }
    const claim = offeredVolume(offered, volume, readOnly);
    const known = claims.get(claim.source);
    const name =
      known?.name ?? `${VOLUME_PREFIX}-${index}-${volume}`.slice(0, MAX_NAME_LENGTH).replace(/-+$/, '');
    claims.set(claim.source, { name, isWritable: claim.isWritable || known?.isWritable === true });
    const within = subPath === undefined ? {} : { subPath };
    const isCreated = subPath !== undefined && !readOnly;
    return {
      volumes: [],
      mounts: [{ name, mountPath, ...within, ...(readOnly ? { readOnly: true } : {}) }],
      ownedMounts: isCreated ? [{ name, mountPath: owned, ...within }] : [],
      // The node creates the folder as one of root, and does not say that it has: an older one was there before.
      commands: isCreated
        ? [
            `if [ -O ${owned} ] && [ ! ${owned} -ot ${reference} ] && [ -z "$(ls -A ${owned})" ]; then ${ownership(owned, user)}; fi`,
          ]
        : [],
    };
  });
  return {
    volumes: [
      ...[...claims].map(([claimName, { name, isWritable }]) => ({
        name,
        persistentVolumeClaim: { claimName, ...(isWritable ? {} : { readOnly: true }) },
      })),
      ...parts.flatMap(({ volumes }) => volumes),
    ],
    mounts: parts.flatMap(({ mounts: own }) => own),
    ownedMounts: parts.flatMap(({ ownedMounts }) => ownedMounts),
    commands: parts.flatMap(({ commands }) => commands),
  };
}

/** The volume whose claim a pod waits for in vain, by the reason that the scheduler gives; undefined: it is another reason. */
export function missingVolume(spec: PodSpec | undefined, reason: string | undefined): string | undefined {
  const [, claim] = /persistentvolumeclaim "([^"]+)" not found/.exec(reason ?? '') ?? [];
  if (claim === undefined) return undefined;
  const volume = spec?.volumes?.find((one) => one.persistentVolumeClaim?.claimName === claim);
  return offeredName(volume?.name);
}

/** The volume that a node could not mount for a pod in two minutes, by its event; undefined: the event says something else. */
export function unmountedVolume(message: string | undefined): string | undefined {
  const [, names = ''] = /unmounted volumes=\[([^\]]*)\]/.exec(message ?? '') ?? [];
  return names
    .split(' ')
    .map((name) => offeredName(name))
    .find((name) => name !== undefined);
}

/** The volume with a folder that a node cannot use for a run, by the reason of the container; undefined: it is another reason. */
export function unusableFolder(reason: string | undefined): string | undefined {
  return offeredName(/subPath (?:directory )?for volumeMount "([^"]+)"/.exec(reason ?? '')?.[1]);
}

/** Whether a run mounts a claim. */
export function mountsClaim(spec: PodSpec | undefined): boolean {
  return spec?.volumes?.some(({ name }) => offeredName(name) !== undefined) === true;
}

/** Whether a node ended a pod because an empty folder of its run is larger than it may be. */
export function isOverScratch(message: string | undefined): boolean {
  return new RegExp(`Usage of EmptyDir volume "${SCRATCH_PREFIX}-\\d+" exceeds`).test(message ?? '');
}

/** The volume, as runs name it, of a volume of a pod. */
function offeredName(name = ''): string | undefined {
  return new RegExp(`^${VOLUME_PREFIX}-\\d+-(.+)$`).exec(name)?.[1];
}

/** The new owner comes last: without capabilities, nobody else may change the mode. */
function ownership(folder: string, user: string | null): string {
  return user === null ? `chmod 1777 ${folder}` : `chmod 755 ${folder} && chown ${user} ${folder}`;
}
