import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DockerRuntime } from './docker/docker.runtime.js';
import { engineProblem } from './docker/engine/engine-problem.js';
import { PULL_TIMING } from './docker/images/pull-watch.js';
import { LoginFile } from './docker/images/login-file.js';
import { ImagePolicy } from './docker/images/image-policy.js';
import type { ImageBudget } from './docker/images/image-store.js';
import type { OfferedVolumes } from './volumes.js';
import { ProcessRuntime } from './process/process.runtime.js';
import { RunFolders } from './process/run-folders.js';
import type { Runtime, RuntimeLog } from './runtime.js';

export interface RuntimeChoice {
  /** SERVICE_WORKER_RUNTIME; null, which names a cluster, counts as docker. */
  readonly runtime: 'docker' | 'process' | null;
  /** SERVICE_WORKER_IMAGES_DIR; null: not set. */
  readonly imagesDir: string | null;
  /** SERVICE_WORKER_IMAGES; null: every image. */
  readonly allowedImages: readonly string[] | null;
  /** SERVICE_WORKER_LOCAL_REGISTRIES. */
  readonly localRegistries: boolean;
  /** SERVICE_WORKER_PULL_SILENCE, in seconds; 0: none. */
  readonly pullSilenceSeconds: number;
  /** SERVICE_WORKER_REGISTRY_LOGINS; null: not set. */
  readonly registryLogins: string | null;
  readonly imageBudget: ImageBudget;
  /** SERVICE_WORKER_NETWORK. */
  readonly network: string;
  /** SERVICE_WORKER_NETWORKS. */
  readonly networks: ReadonlyMap<string, string>;
  /** SERVICE_WORKER_VOLUMES. */
  readonly volumes: OfferedVolumes;
  /** SERVICE_WORKER_USER; null: not set. */
  readonly containerUser: string | null;
  /** SERVICE_WORKER_PIDS; null: not set. */
  readonly pids: number | null;
  /** DOCKER_HOST and what belongs to it, PATH, LANG, TZ. */
  readonly env: NodeJS.ProcessEnv;
  readonly workerId: string;
  /** Random name of the folder with the lock of the id. */
  readonly instance: string;
  readonly log: RuntimeLog;
  /** Folder for the process runtime's notes, beside the folders of its runs; default: in the temporary folder. */
  readonly notesDir?: string;
}

/** Where the example images are when SERVICE_WORKER_IMAGES_DIR does not say: in the checkout that the worker runs in. */
const DEFAULT_IMAGES_DIR = 'examples/images';

/**
 * The runtime that SERVICE_WORKER_RUNTIME names. Processes never take the place of an engine that does not answer, because
 * they isolate nothing.
 * @throws Error fit for the operator when it cannot be used
 */
export async function chooseRuntime(choice: RuntimeChoice): Promise<Runtime> {
  const {
    runtime,
    env,
    workerId,
    instance,
    log,
    pullSilenceSeconds,
    imageBudget,
    network,
    networks,
    volumes,
    pids,
  } = choice;
  if (runtime === 'process') return processRuntime(choice);
  const problem = await engineProblem(env);
  if (problem === null) {
    const logins = choice.registryLogins === null ? null : new LoginFile(choice.registryLogins, env);
    await logins?.check();
    const policy = new ImagePolicy(choice);
    const pullTiming = { ...PULL_TIMING, silentMs: pullSilenceSeconds * 1000 };
    const docker = new DockerRuntime({
      env,
      workerId,
      instance,
      log,
      policy,
      pullTiming,
      logins,
      imageBudget,
      network,
      networks,
      volumes,
      pids,
      user: choice.containerUser,
    });
    await docker.checkNetworks();
    await docker.checkVolumes();
    return docker;
  }
  throw new Error(
    `No runtime for containers: ${problem}. Start an engine, or point DOCKER_HOST to one. To run example programs as plain ` +
      'processes, without isolation, set SERVICE_WORKER_RUNTIME=process and SERVICE_WORKER_IMAGES_DIR',
  );
}

function processRuntime(choice: RuntimeChoice): Runtime {
  const { env, workerId, instance, log, notesDir } = choice;
  return new ProcessRuntime({
    imagesDir: folderOf(choice),
    notesDir: notesDir ?? defaultNotesDir(workerId, instance),
    folders: new RunFolders(workerId, notesDir === undefined ? undefined : dirname(notesDir), instance),
    log,
    env,
  });
}

function folderOf({ imagesDir }: Pick<RuntimeChoice, 'imagesDir'>): string {
  return imagesDir ?? DEFAULT_IMAGES_DIR;
}

/** Worker ids may hold characters that file names may not. */
function defaultNotesDir(workerId: string, instance: string): string {
  const user = process.getuid === undefined ? 'user' : String(process.getuid());
  const worker = createHash('sha256').update(`${instance} ${workerId}`).digest('hex').slice(0, 16);
  return join(tmpdir(), `longshore-processes-${user}-${worker}`);
}
