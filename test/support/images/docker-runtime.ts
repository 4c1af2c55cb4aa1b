import { CONTAINER_TIMING } from '@longshore/worker/runtime/docker/container/docker.container';
import type { DockerRuntime, DockerRuntimeOptions } from '@longshore/worker/runtime/docker/docker.runtime';
import { runtimeOn } from '@longshore/worker/testing/container-spec';
import { launch, makeDataDir, type TestProcess } from '../service-process.js';
import { WORKER_MAIN, type WorkerOptions } from '../workers/worker-process.js';
import type { TestEngine } from './docker-engine.js';

/** A runtime on an engine of the tests, with the times of a worker. */
export function runtimeFor(
  { host }: Pick<TestEngine, 'host'>,
  options: Partial<DockerRuntimeOptions> = {},
): DockerRuntime {
  return runtimeOn({ host }, { timing: CONTAINER_TIMING, ...options });
}

/** Starts the worker program with an engine. @param folder for its files; default: a new one */
export async function startDockerWorker(
  host: string,
  { url, key, id, env = {} }: WorkerOptions,
  folder?: string,
): Promise<TestProcess> {
  const own = folder ?? (await makeDataDir());
  return launch(WORKER_MAIN, {
    env: {
      SERVICE_URL: url,
      SERVICE_API_KEY: key,
      SERVICE_WORKER_ID: id,
      SERVICE_WORKER_TICK: '0.2',
      SERVICE_WORKER_RUNTIME: 'docker',
      DOCKER_HOST: host,
      SERVICE_WORKER_LOCAL_REGISTRIES: 'true',
      SERVICE_WORKER_NETWORK: 'none',
      SERVICE_WORKER_STATE_DIR: `${own}/state`,
      TMPDIR: own,
      ...env,
    },
  });
}
