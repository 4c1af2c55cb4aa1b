import { targetFolders } from '@longshore/worker/artifacts/pattern';
import { RunFault } from '@longshore/worker/runtime/runtime';
import type { RunArtifacts } from '@longshore/worker/service-api/run-artifacts';
import { packMessage, TRANSFER_FILES } from '@longshore/worker/transfer/messages';
import type { JobSpec } from '../../launcher/engine.js';
import type { Container, PodTemplate } from '../api/resources.js';
import { FOR_FILES, helper, restricted, userOf } from './containers.js';
import type { PodMounts, VolumeMounts } from './mounts.js';
import {
  FILES_CONTAINER,
  FILES_VOLUME,
  filesSecretName,
  OUTPUTS_CONTAINER,
  OUTPUT_KEY,
  RUN_CONTAINER,
} from './names.js';
import { outputsScript } from './output-frame.js';

/** Volume in which the files of a run are at their paths. */
const ROOT_VOLUME = 'longshore-files-root';
const ROOT = '/longshore-files-root';
/** Volume for files that are on their way in. */
const STAGING_VOLUME = 'longshore-staging';
const STAGING = '/longshore-staging';
/** Volume of what the launcher tells the containers. */
const TRANSFER_VOLUME = 'longshore-transfer';
const TRANSFER = '/longshore-transfer';

/** Where the output file is beside the image of the worker, which has its program in `/longshore`. */
const OUTPUT_FOLDER = '/longshore-outputs';
const PROGRAM = 'node /longshore/packages/worker/dist/transfer/main.js';

/** What the files of a run are in its pod. */
export interface PodFiles extends PodMounts {
  /** Comes before the container of the run. */
  readonly fetching: Container;
  /** Is beside it, in the place of the one that prints the outputs; null: the run leaves no files. */
  readonly storing: Container | null;
}

/** What the container of the run mounts beside: its volumes and scratch folders, and the files of its option `files`. */
interface OtherMounts {
  readonly folders: VolumeMounts;
  readonly files: VolumeMounts;
}

/**
 * The files of a run are in one volume, in which they have their own paths. The run mounts the outermost of them, and what is in a
 * volume or a scratch folder of the run is put there.
 * @throws RunFault when a path cannot be mounted
 */
export function podFiles(
  spec: JobSpec,
  { folders: mounted, files }: OtherMounts,
  image: string | null,
): PodFiles | null {
  const { signedFiles: artifacts } = spec;
  if (artifacts === null) return null;
  if (image === null) throw new RunFault('This worker has no image for the files of runs');
  const places = placesOf(artifacts);
  if (places.some(({ path }) => path === '/'))
    throw new RunFault('On Kubernetes, the files that a run leaves must be in a folder below /');
  const outer = [
    ...mounted.map(({ mountPath }) => mountPath),
    ...places.flatMap(({ path, isFile }) => (isFile ? [] : [path])),
  ];
  const own = places.filter(
    ({ path }) =>
      !outer.some((folder) => path.startsWith(`${folder}/`)) &&
      !mounted.some(({ mountPath }) => mountPath === path),
  );
  const below = (mounts: VolumeMounts): VolumeMounts =>
    mounts.map((mount) => ({ ...mount, mountPath: `${ROOT}${mount.mountPath}` }));
  const root = { name: ROOT_VOLUME, mountPath: ROOT };
  const transfer = { name: TRANSFER_VOLUME, mountPath: TRANSFER, readOnly: true };
  return {
    volumes: [
      { name: ROOT_VOLUME, emptyDir: {} },
      { name: STAGING_VOLUME, emptyDir: {} },
      // All keys: the launcher adds some later.
      {
        name: TRANSFER_VOLUME,
        secret: { secretName: filesSecretName(spec), defaultMode: 0o444, optional: true },
      },
    ],
    mounts: own.map(({ path, isFile }) => ({
      name: ROOT_VOLUME,
      mountPath: path,
      subPath: path.slice(1),
      ...(isFile && { readOnly: true }),
    })),
    ownedMounts: mounted.length === 0 ? [] : [root],
    // Those that the node makes for mounts would be root's alone.
    commands: below(mounted).map(({ mountPath }) => `(umask 0; mkdir -p ${quoted(mountPath)})`),
    fetching: fetchContainer(spec, image, [
      transfer,
      root,
      { name: STAGING_VOLUME, mountPath: STAGING },
      ...below(mounted),
    ]),
    storing: leavesFiles(artifacts)
      ? storeContainer(spec, image, [transfer, root, ...below([...mounted, ...files])])
      : null,
  };
}

/** Whether what the run leaves is stored. */
function leavesFiles({ out }: RunArtifacts): boolean {
  return Object.keys(out).length > 0;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Fetches the files of the run as its user, of whom they are then. Where the run names none, any may be the program's. */
function fetchContainer({ user }: JobSpec, image: string, volumeMounts: VolumeMounts): Container {
  const script = `umask ${user === null ? '0' : '022'}; exec ${PROGRAM} in ${TRANSFER} ${ROOT} ${STAGING}`;
  return {
    ...helper(FILES_CONTAINER, image, script, FOR_FILES),
    securityContext: { ...restricted(), ...(user === null ? {} : userOf(user)) },
    volumeMounts,
  };
}

/** Stores the files of the run, and prints its output file then. Process 1 hands a signal on only where it says so. */
function storeContainer({ user }: JobSpec, image: string, mounts: VolumeMounts): Container {
  const script = `trap 'kill "$p"; exit 143' TERM
${PROGRAM} out ${TRANSFER} ${ROOT} & p=$!
wait "$p" || exit 1
${outputsScript(`${OUTPUT_FOLDER}/${OUTPUT_KEY}`)}`;
  return {
    ...helper(OUTPUTS_CONTAINER, image, script, FOR_FILES),
    securityContext: user === null ? restricted('DAC_OVERRIDE') : { ...restricted(), ...userOf(user) },
    volumeMounts: [{ name: FILES_VOLUME, mountPath: OUTPUT_FOLDER, readOnly: true }, ...mounts],
  };
}

/**
 * The pod as it is submitted. A patch names containers where most pods have them. What stores the files of a run goes on after a
 * failure of its program, which is therefore beside it; the files can be those of any user.
 */
export function arrangeContainers(
  template: PodTemplate,
  { signedFiles: artifacts, user }: JobSpec,
): PodTemplate {
  const { spec } = template;
  if (spec === undefined) return template;
  const { initContainers = [], containers, securityContext } = spec;
  const without = (name: string) => initContainers.filter((one) => one.name !== name);
  if (artifacts === null) return { ...template, spec: { ...spec, initContainers: without(FILES_CONTAINER) } };
  if (!leavesFiles(artifacts)) return template;
  const { runAsUser, runAsNonRoot } = securityContext ?? {};
  const isRoot = user === null && runAsUser === undefined && runAsNonRoot !== true;
  const own = isRoot ? { runAsUser: 0 } : {};
  return {
    ...template,
    spec: {
      ...spec,
      initContainers: without(RUN_CONTAINER),
      containers: [
        ...initContainers.filter(({ name }) => name === RUN_CONTAINER),
        ...containers.map((one) => ({ ...one, securityContext: { ...own, ...one.securityContext } })),
      ],
    },
  };
}

/** What is at which path, each once. */
function placesOf(artifacts: RunArtifacts): { readonly path: string; readonly isFile: boolean }[] {
  const sources = Object.entries(artifacts.in).map(([path, { get, isUnpacked }]) => ({
    path,
    isFile: !isUnpacked && !(get !== null && 'length' in get),
  }));
  const known = new Set(sources.map(({ path }) => path));
  const folders = targetFolders(artifacts).filter((path) => !known.has(path));
  return [...sources, ...folders.map((path) => ({ path, isFile: false }))];
}

/** Content of the Secret that tells the containers what to fetch. @param atMs milliseconds since 1970 */
export function sourcesContent(
  artifacts: RunArtifacts,
  networks: string | null,
  atMs: number,
): Readonly<Record<string, Buffer>> {
  const folders = targetFolders(artifacts);
  return { [TRANSFER_FILES.sources]: packMessage({ in: artifacts.in, folders, networks, atMs }) };
}

/** Content of the Secret at first. */
export function filesContent(
  artifacts: RunArtifacts,
  networks: string | null,
): Readonly<Record<string, Buffer>> {
  const { out } = artifacts;
  return { ...sourcesContent(artifacts, networks, 0), [TRANSFER_FILES.targets]: packMessage({ out }) };
}
