import { AsyncLocalStorage } from 'node:async_hooks';
import type { Span } from './tracing.js';

/**
 * The span of the work in progress. Only traced work runs in this storage: on Node 20 and 22 its first use makes every
 * promise of the process more expensive.
 */
export const spanStorage = new AsyncLocalStorage<Span>();

/** The span of the work in progress; undefined when it is not traced. */
export function currentSpan(): Span | undefined {
  return spanStorage.getStore();
}
