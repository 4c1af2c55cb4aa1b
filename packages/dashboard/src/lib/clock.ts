import { useSyncExternalStore } from 'react';

/** Smaller differences are the time an answer takes and the whole seconds of its header. */
const TOLERATED_MS = 3000;
const TICK_MS = 1000;

let offsetMs = 0;
let tick = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

/** Notes the time of the service, from the `Date` header of an answer, so that ages are right under a wrong clock. */
export function noteServiceTime(header: string | null): void {
  const difference = header === null ? Number.NaN : Date.parse(header) - Date.now();
  if (Number.isNaN(difference)) return;
  offsetMs = Math.abs(difference) > TOLERATED_MS ? difference : 0;
}

/** The time of the service, in milliseconds since 1970. */
export function serviceNow(): number {
  return Date.now() + offsetMs;
}

/** The time of the service, anew every second: one timer for the whole page, which rests while the tab is hidden. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => tick);
}

function advance(): void {
  tick = serviceNow();
  for (const listener of listeners) listener();
}

function keepTime(): void {
  clearInterval(timer);
  timer = undefined;
  if (listeners.size === 0 || document.hidden) return;
  advance();
  timer = setInterval(advance, TICK_MS);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (listeners.size === 1) {
    tick = serviceNow();
    timer = setInterval(advance, TICK_MS);
    document.addEventListener('visibilitychange', keepTime);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
    document.removeEventListener('visibilitychange', keepTime);
  };
}
