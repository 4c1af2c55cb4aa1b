import { AsyncLocalStorage } from 'node:async_hooks';
import type { Span } from '../tracing/tracing.js';

/** The request being answered. */
export interface RequestInProgress {
  readonly requestId: string;
  /** The span of what is being done for it; undefined when nothing traces it. */
  readonly span?: Span | undefined;
}

/** What belongs to the request being answered; every log line written meanwhile carries its ids. */
export const requestContext = new AsyncLocalStorage<RequestInProgress>();

/** The span of what is being done, if it is traced. */
export function currentSpan(): Span | undefined {
  return requestContext.getStore()?.span;
}
