import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DockerRuntime, engineProblem } from './docker/docker.runtime.js';
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
  /** DOCKER_HOST and what belongs to it, PATH, LANG, TZ. */
  readonly env: NodeJS.ProcessEnv;
  readonly workerId: string;
  readonly log: RuntimeLog;
  /** Folder for the process runtime's notes, beside the folders of its runs; default: in the temporary folder. */
  readonly stateDir?: string;
}

/** Where the example images are when SERVICE_WORKER_IMAGES_DIR does not say: in the checkout that the worker runs in. */
const DEFAULT_IMAGES_DIR = 'examples/images';

/**
 * The runtime that SERVICE_WORKER_RUNTIME names (`docker` or `process`); when unset, Docker where an engine answers, and
 * else the process runtime if there is a folder of example images, with a warning, because it isolates nothing.
 * @throws Error fit for the operator when the named runtime cannot be used, or none can
 */
export async function chooseRuntime(choice: RuntimeChoice): Promise<Runtime> {
  const { runtime, env, workerId, log } = choice;
  if (runtime === 'process') return processRuntime(choice);
  const problem = await engineProblem(env);
  if (problem === null) return new DockerRuntime({ env, workerId, log, policy: new ImagePolicy(choice) });
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
  const { env, workerId, log, stateDir } = choice;
  return new ProcessRuntime({
    imagesDir: folderOf(choice),
    stateDir: stateDir ?? defaultStateDir(workerId),
    folders: new RunFolders(workerId, stateDir === undefined ? undefined : dirname(stateDir)),
    log,
    env,
  });
}

function folderOf({ imagesDir }: Pick<RuntimeChoice, 'imagesDir'>): string {
  return imagesDir ?? DEFAULT_IMAGES_DIR;
}

/** Worker ids may hold characters that file names may not. */
function defaultStateDir(workerId: string): string {
  const user = process.getuid === undefined ? 'user' : String(process.getuid());
  const worker = createHash('sha256').update(workerId).digest('hex').slice(0, 16);
  return join(tmpdir(), `longshore-processes-${user}-${worker}`);
}
