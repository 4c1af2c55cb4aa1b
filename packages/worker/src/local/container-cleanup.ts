import { retryCleanup, type CleanupContext } from '../execution/retry-cleanup.js';
import type { RunningContainer } from '../runtime/runtime.js';

/** Seconds between the request to end and the kill. */
const STOP_GRACE_SECONDS = 5;

/** Stops and removes a container. The next start of the worker removes one that remains. Never rejects. */
export async function removeContainer(container: RunningContainer, context: CleanupContext): Promise<void> {
  await retryCleanup('stop the container', () => container.stop(STOP_GRACE_SECONDS), context);
  await retryCleanup('remove the container', () => container.remove(), context);
}
