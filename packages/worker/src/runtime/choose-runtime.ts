import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DockerRuntime, engineProblem } from './docker/docker.runtime.js';
import { PULL_TIMING } from './docker/pull-watch.js';
import { ImagePolicy } from './docker/image-policy.js';
import { ProcessRuntime } from './process/process.runtime.js';
import { RunFolders } from './process/run-folders.js';
import type { Runtime, RuntimeLog } from './runtime.js';

export interface RuntimeChoice {
  /** SERVICE_WORKER_RUNTIME; null: not set. */
  readonly runtime: 'docker' | 'process' | null;
  /** SERVICE_WORKER_IMAGES_DIR; null: not set. */
  readonly imagesDir: string | null;
  /** SERVICE_WORKER_IMAGES; null: every image. */
  readonly allowedImages: readonly string[] | null;
  /** SERVICE_WORKER_LOCAL_REGISTRIES. */
  readonly localRegistries: boolean;
  /** SERVICE_WORKER_PULL_SILENCE, in seconds; 0: none. */
  readonly pullSilenceSeconds: number;
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
 * The runtime that SERVICE_WORKER_RUNTIME names (`docker` or `process`); when unset, Docker where an engine answers, and
 * else the process runtime if there is a folder of example images, with a warning, because it isolates nothing.
 * @throws Error fit for the operator when the named runtime cannot be used, or none can
 */
export async function chooseRuntime(choice: RuntimeChoice): Promise<Runtime> {
  const { runtime, env, workerId, instance, log, pullSilenceSeconds } = choice;
  if (runtime === 'process') return processRuntime(choice);
  const problem = await engineProblem(env);
  if (problem === null) {
    const policy = new ImagePolicy(choice);
    const pullTiming = { ...PULL_TIMING, silentMs: pullSilenceSeconds * 1000 };
    return new DockerRuntime({ env, workerId, instance, log, policy, pullTiming });
  }
  if (runtime === 'docker') throw new Error(`SERVICE_WORKER_RUNTIME is docker, but ${problem}`);
  const imagesDir = folderOf(choice);
  if (!existsSync(imagesDir)) {
    throw new Error(
      `No runtime for containers: ${problem}. Start an engine, point DOCKER_HOST to one, ` +
        'or set SERVICE_WORKER_RUNTIME=process with SERVICE_WORKER_IMAGES_DIR to run example programs without isolation',
    );
  }
  log.warn(
    { reason: problem, imagesDir },
    'NO CONTAINER ENGINE: runs are executed as plain child processes, without isolation and without limits',
  );
  return processRuntime(choice);
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
