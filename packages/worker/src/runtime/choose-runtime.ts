import { DockerRuntime } from './docker/docker.runtime.js';
import { engineProblem } from './docker/engine/docker-engine.js';
import { PULL_TIMING } from './docker/images/image-pull.js';
import { LoginFile } from './docker/images/registry-login.js';
import { ImagePolicy } from './docker/images/image-policy.js';
import type { WorkerIdentity } from '../process/worker-identity.js';
import type { WorkerSettings } from '../settings/worker-settings.js';
import { ProcessRuntime } from './process/process.runtime.js';
import { RunFolders } from './process/run-folders.js';
import type { Runtime, RuntimeLog } from './runtime.js';

export interface RuntimeChoice extends Omit<WorkerSettings, 'workerId'>, WorkerIdentity {
  /** DOCKER_HOST and what belongs to it, PATH, LANG, TZ. */
  readonly env: NodeJS.ProcessEnv;
  readonly log: RuntimeLog;
  /** Folder for those of the process runtime's runs; default: the temporary folder. */
  readonly baseDir?: string;
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
    env,
    registryLogins,
    pullSilenceSeconds,
    maxImageAgeMs: maxAgeMs,
    maxImageBytes: maxBytes,
  } = choice;
  if (choice.runtime === 'process') {
    const { imagesDir, workerId, baseDir, instance } = choice;
    const folders = new RunFolders(workerId, baseDir, instance);
    return new ProcessRuntime({ ...choice, imagesDir: imagesDir ?? DEFAULT_IMAGES_DIR, folders });
  }
  const problem = await engineProblem(env);
  if (problem !== null)
    throw new Error(
      `No runtime for containers: ${problem}. Start an engine, or point DOCKER_HOST to one. To run example programs as plain ` +
        'processes, without isolation, set SERVICE_WORKER_RUNTIME=process and SERVICE_WORKER_IMAGES_DIR',
    );
  const logins = registryLogins === null ? null : new LoginFile(registryLogins, env);
  await logins?.check();
  const docker = new DockerRuntime({
    ...choice,
    policy: new ImagePolicy(choice),
    pullTiming: { ...PULL_TIMING, silentMs: pullSilenceSeconds * 1000 },
    logins,
    imageBudget: { maxAgeMs, maxBytes },
    user: choice.containerUser,
  });
  await docker.checkEngine(choice.oldEngine);
  await docker.checkNetworks();
  await docker.checkVolumes();
  return docker;
}
