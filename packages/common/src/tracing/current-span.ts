import { AsyncLocalStorage } from 'node:async_hooks';
import type { Span } from './tracing.js';

/** The current span. Only traced work uses this storage: on Node 20 and 22 its first use slows down every promise. */
export const spanStorage = new AsyncLocalStorage<Span>();

/** Undefined when the current work is not traced. */
export function currentSpan(): Span | undefined {
  return spanStorage.getStore();
}
