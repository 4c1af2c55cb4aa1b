import { AsyncLocalStorage } from 'node:async_hooks';

/** What belongs to the request being answered; every log line written meanwhile carries its id. */
export const requestContext = new AsyncLocalStorage<{ requestId: string }>();
