import { useSyncExternalStore } from 'react';

let isAway = false;
const listeners = new Set<() => void>();

/** Notes whether the last request got an answer from the service. */
export function noteReachable(isReachable: boolean): void {
  if (isAway === !isReachable) return;
  isAway = !isReachable;
  for (const listener of listeners) listener();
}

/** Whether the service is unreachable, as far as the last request can tell. */
export function useIsAway(): boolean {
  return useSyncExternalStore(subscribe, () => isAway);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
