import { FILES_ROOT } from '@longshore/common/variable-names';
import type { JobSpec } from '../../launcher/engine.js';
import { RunFault, usesGpus, workerEnvironment } from '@longshore/worker/runtime/runtime';
import type { Container, Job, PodSpec, PodTemplate } from '../api/resources.js';
import type { KubernetesSettings } from '@longshore/worker/settings/kubernetes-settings';
import type { OfferedVolumes } from '@longshore/worker/settings/volumes';
import { podMounts, type PodMounts } from './mounts.js';
import {
  ATTEMPT_LABEL,
  DEPLOYMENT_LABEL,
  FILES_VOLUME,
  INPUT_KEY,
  INPUTS_CONTAINER,
  jobName,
  labelValue,
  OUTPUT_KEY,
  OUTPUTS_CONTAINER,
  podLabels,
  pullSecretName,
  runAnnotations,
  RUN_CONTAINER,
  RUN_LABEL,
  SHM_VOLUME,
  WORKER_ANNOTATION,
  WORKER_LABEL,
} from './names.js';
import { helper, literal, restricted, userOf } from './containers.js';
import { affinityOf, nodeSelectorOf, resourcesOf, shmMbOf } from './job-resources.js';
import { outputsScript } from './output-frame.js';
import { arrangeContainers, podFiles, type PodFiles } from './run-files.js';
import { fileKeyOf, secretKeyOf } from './secrets.js';

/** Time after which the cluster deletes a finished Job that no launcher has removed, in seconds. */
const SECONDS_TO_LIVE = 86_400;

/** Limit of a Job, in bytes as it is sent. A cluster stores 1.5 MiB of it, of its pod and of what it notes about both. */
const MAX_JOB_BYTES = 2 ** 20;

const FOLDER = '/longshore';
const HOME = `${FOLDER}/home`;
const SECRET_FOLDER = '/longshore-secret';
const SECRET_VOLUME = 'longshore-secret';
/** Where the files of a run get their owners and modes, which those of a Secret cannot have. */
const RUN_FILES_FOLDER = '/longshore-run-files';
const RUN_FILES_VOLUME = 'longshore-run-files';

/** What is the same for all Jobs of a launcher. */
export interface JobContext {
  readonly settings: KubernetesSettings;
  /** SERVICE_WORKER_VOLUMES. */
  readonly volumes: OfferedVolumes;
  /** SERVICE_WORKER_FETCH_NETWORKS; null: none. */
  readonly fetchNetworks: string | null;
  readonly deployment: string;
  readonly workerId: string;
  /** The nodes' product of GPU by the tag that it is reported as. */
  readonly gpuProducts: ReadonlyMap<string, string>;
  /** Merges the operator's patch. */
  readonly patch: (template: PodTemplate) => PodTemplate;
}

/** Labels of the Job, the pod and the Secrets of an attempt. */
export function jobLabels(
  spec: JobSpec,
  { deployment, workerId }: Pick<JobContext, 'deployment' | 'workerId'>,
): Readonly<Record<string, string>> {
  return {
    [DEPLOYMENT_LABEL]: labelValue(deployment),
    [WORKER_LABEL]: labelValue(workerId),
    [RUN_LABEL]: spec.runId,
    [ATTEMPT_LABEL]: String(spec.attempt),
  };
}

/** @throws RunFault when a cluster could not store the Job, or what becomes of its pod */
export function checkSize(job: Job): void {
  const { initContainers = [], containers = [] } = job.spec?.template.spec ?? {};
  // The cluster notes the name of each variable and the path of each mount a second time, with who has set it.
  const noted = [...initContainers, ...containers].map(({ env = [], volumeMounts = [] }) => [
    ...env.map(({ name }) => name),
    ...volumeMounts.map(({ mountPath }) => mountPath),
  ]);
  const bytes = [job, noted].reduce((sum, part) => sum + Buffer.byteLength(JSON.stringify(part)), 0);
  if (bytes <= MAX_JOB_BYTES) return;
  throw new RunFault(
    `Command, arguments, environment and paths of the run make a Kubernetes job of ${bytes} bytes, where quotes, control characters and $ count more than once; ` +
      `the limit is ${MAX_JOB_BYTES} bytes: pass large values as inputs or files`,
  );
}

/** The Job of an attempt. Its pod is never repeated: retries are the service's. */
export function jobManifest(spec: JobSpec, context: JobContext): Job {
  const labels = jobLabels(spec, context);
  const annotations = runAnnotations(spec);
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: jobName(spec),
      labels,
      annotations: { [WORKER_ANNOTATION]: context.workerId, ...annotations },
    },
    spec: {
      backoffLimit: 0,
      parallelism: 1,
      completions: 1,
      ttlSecondsAfterFinished: SECONDS_TO_LIVE,
      // API servers that are too old for these two ignore them.
      podReplacementPolicy: 'Failed',
      podFailurePolicy: {
        rules: [{ action: 'FailJob', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] }],
      },
      template: arrangeContainers(
        context.patch({
          metadata: {
            labels: { ...podLabels(spec), ...labels },
            ...(Object.keys(annotations).length > 0 && { annotations }),
          },
          spec: podSpec(spec, context),
        }),
        spec,
      ),
    },
  };
}

/**
 * Three containers, one after the other: `inputs` copies the files, `run` is the user's, and `outputs` prints the output file;
 * the cluster does not start it when `run` fails. Nothing has to be stopped, and nothing of the launcher is in the user's image.
 * For a run that gets or leaves files, `files` comes before `run`.
 */
function podSpec(spec: JobSpec, { settings, volumes, gpuProducts }: JobContext): PodSpec {
  const mounts = podMounts(spec, volumes, FOLDER);
  const others = { folders: mounts.mounts, files: fileMounts(spec) };
  const files = podFiles(spec, others, settings.filesImage);
  const { helperImage, serviceAccount, priorityClass, tolerations, pullSecrets } = settings;
  const imagePullSecrets = [...pullSecrets, ...(spec.registry === null ? [] : [pullSecretName(spec)])];
  const nodeSelector = nodeSelectorOf(spec, settings, gpuProducts);
  const shmMb = shmMbOf(spec);
  return {
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    // 0 would delete the pod without waiting for its container.
    terminationGracePeriodSeconds: Math.max(1, spec.stop_grace_s),
    // Nodes begin containers without any profile by themselves.
    securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
    ...(serviceAccount === null ? {} : { serviceAccountName: serviceAccount }),
    ...(priorityClass === null ? {} : { priorityClassName: priorityClass }),
    ...(tolerations.length === 0 ? {} : { tolerations }),
    ...(imagePullSecrets.length === 0
      ? {}
      : { imagePullSecrets: imagePullSecrets.map((name) => ({ name })) }),
    ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector }),
    ...affinityOf(spec.constraints, settings.vramLabel),
    initContainers: [
      inputsContainer(spec, helperImage, mounts, files),
      ...(files === null ? [] : [files.fetching]),
      runContainer(spec, settings, [...mounts.mounts, ...(files?.mounts ?? [])]),
    ],
    containers: [files?.storing ?? outputsContainer(helperImage)],
    volumes: [
      { name: FILES_VOLUME, emptyDir: {} },
      ...(spec.files.length === 0 ? [] : [{ name: RUN_FILES_VOLUME, emptyDir: { medium: 'Memory' } }]),
      ...(shmMb === 0 ? [] : [{ name: SHM_VOLUME, emptyDir: { medium: 'Memory', sizeLimit: `${shmMb}Mi` } }]),
      {
        name: SECRET_VOLUME,
        secret: {
          secretName: jobName(spec),
          defaultMode: 0o444,
          // A node that waits for a Secret that was deleted with its Job does not end the pod for minutes.
          optional: true,
          items: [INPUT_KEY, OUTPUT_KEY, ...spec.files.map((_, index) => fileKeyOf(index))].map((key) => ({
            key,
            path: key,
          })),
        },
      },
      ...mounts.volumes,
      ...(files?.volumes ?? []),
    ],
  };
}

/** Inputs and outputs are open to every user, because the image decides which user the program runs as. */
function inputsContainer(
  { files, user }: JobSpec,
  image: string,
  mounts: PodMounts,
  ofFiles: PodFiles | null,
): Container {
  const commands = [
    // First: the age of the folder of the files, which `cp` changes, tells which folders are new.
    ...mounts.commands,
    `cp ${SECRET_FOLDER}/${INPUT_KEY} ${SECRET_FOLDER}/${OUTPUT_KEY} ${FOLDER}/`,
    `chmod 644 ${FOLDER}/${INPUT_KEY}`,
    `chmod 666 ${FOLDER}/${OUTPUT_KEY}`,
    ...(user === null ? [] : [`mkdir ${HOME} && chmod 1777 ${HOME}`]),
    ...files.flatMap(({ mode }, index) => {
      const file = `${RUN_FILES_FOLDER}/${fileKeyOf(index)}`;
      // The new owner comes last: without capabilities, nobody else may change the mode.
      return [
        `cp ${SECRET_FOLDER}/${fileKeyOf(index)} ${file}`,
        `chmod ${mode.toString(8)} ${file}`,
        ...(user === null ? [] : [`chown ${user} ${file}`]),
      ];
    }),
    ...(ofFiles?.commands ?? []),
  ];
  const givesAway = user !== null && files.length + mounts.commands.length > 0;
  const runFiles = { name: RUN_FILES_VOLUME, mountPath: RUN_FILES_FOLDER };
  return {
    ...helper(INPUTS_CONTAINER, image, commands.join(' && ')),
    securityContext: givesAway ? restricted('CHOWN') : restricted(),
    volumeMounts: [
      filesMount(),
      { name: SECRET_VOLUME, mountPath: SECRET_FOLDER, readOnly: true },
      ...(files.length === 0 ? [] : [runFiles]),
      ...mounts.ownedMounts,
      ...(ofFiles?.ownedMounts ?? []),
    ],
  };
}

/** Without capabilities even root is subject to file modes, and the file can be private to the program's user. */
function outputsContainer(image: string): Container {
  return {
    ...helper(OUTPUTS_CONTAINER, image, outputsScript(`${FOLDER}/${OUTPUT_KEY}`)),
    securityContext: restricted('DAC_OVERRIDE'),
    volumeMounts: [filesMount()],
  };
}

function runContainer(
  spec: JobSpec,
  { pullPolicy }: KubernetesSettings,
  mounts: PodMounts['mounts'],
): Container {
  const { image, command, args, workdir, user, constraints } = spec;
  const { requests, limits } = resourcesOf(constraints);
  return {
    name: RUN_CONTAINER,
    image,
    imagePullPolicy: pullPolicy,
    ...(command === null || command.length === 0 ? {} : { command: command.map(literal) }),
    ...(args === null || args.length === 0 ? {} : { args: args.map(literal) }),
    ...(workdir === null ? {} : { workingDir: workdir }),
    env: environmentOf(spec),
    ...(Object.keys(requests).length === 0 ? {} : { resources: { requests, limits } }),
    securityContext: { ...restricted(), ...(user === null ? {} : userOf(user)) },
    volumeMounts: [
      filesMount(),
      ...fileMounts(spec),
      ...(shmMbOf(spec) === 0 ? [] : [{ name: SHM_VOLUME, mountPath: '/dev/shm' }]),
      ...mounts,
    ],
  };
}

function fileMounts({ files }: JobSpec): PodMounts['mounts'] {
  return files.map(({ path: mountPath }, index) => ({
    name: RUN_FILES_VOLUME,
    mountPath,
    subPath: fileKeyOf(index),
    readOnly: true,
  }));
}

function environmentOf(spec: JobSpec): Container['env'] {
  const { env, secrets, constraints } = spec;
  const own = workerEnvironment(spec, constraints, FOLDER);
  // The device plugin sets it, below what a pod says.
  const isOfPlugin = (name: string): boolean => name === 'NVIDIA_VISIBLE_DEVICES' && usesGpus(constraints);
  const root = spec.signedFiles === null ? {} : { [FILES_ROOT]: '' };
  const texts = Object.entries({ ...accountOf(spec), ...env, ...root, ...own }).filter(
    ([name]) => name in own || !(name in secrets || isOfPlugin(name)),
  );
  const ofSecrets = Object.keys(secrets).map((name, index) => ({ name, key: secretKeyOf(index) }));
  return [
    ...texts.map(([name, value]) => ({ name, value: literal(value) })),
    ...ofSecrets
      .filter(({ name }) => !(name in own))
      .map(({ name, key }) => ({ name, valueFrom: { secretKeyRef: { name: jobName(spec), key } } })),
  ];
}

/** The variables of a user whom the image may not know. A launcher cannot look into it. */
function accountOf({ user }: JobSpec): Readonly<Record<string, string>> {
  const uid = Number.parseInt(user ?? '0', 10);
  return uid === 0 ? {} : { HOME, USER: `user${uid}`, LOGNAME: `user${uid}` };
}

function filesMount(): { readonly name: string; readonly mountPath: string } {
  return { name: FILES_VOLUME, mountPath: FOLDER };
}
