import { loadWorkerSettings } from '@longshore/worker/load-settings';
import { RunFolders } from '@longshore/worker/execution/run-folder';
import { chooseRuntime } from '@longshore/worker/runtime/choose-runtime';

/**
 * Removes what a worker that died left behind: the containers or processes of its runs, and their folders.
 * @param env the worker's environment
 */
export async function removeRuns(env: NodeJS.ProcessEnv, workerId: string): Promise<void> {
  const log = { info: () => undefined, warn: () => undefined };
  const runtime = await chooseRuntime({ ...loadWorkerSettings([], env), env, workerId, log });
  await runtime.removeLeftovers();
  await new RunFolders(workerId).prepare();
}
