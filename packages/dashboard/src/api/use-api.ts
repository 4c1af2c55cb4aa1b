import { useMemo } from 'react';
import { createLongshoreClient, type LongshoreClient } from '@longshore/client';
import { SERVICE_URL } from '../lib/addresses.js';
import { useSession } from '../session/session-context.js';
import { serviceFetch } from './service-fetch.js';

export type { LongshoreClient, Schemas } from '@longshore/client';

/** A typed client that calls the service with a key. */
export function createApi(apiKey: string): LongshoreClient {
  return createLongshoreClient({ baseUrl: SERVICE_URL, apiKey, fetch: serviceFetch });
}

/**
 * The typed client with the key of who is signed in. Hand on the `signal` that a query gets, so that its request is
 * aborted when no component uses it any more: `queryFn: ({ signal }) => unwrap(api.GET('/workers', { signal }))`.
 */
export function useApi(): LongshoreClient {
  const { apiKey } = useSession();
  return useMemo(() => createApi(apiKey), [apiKey]);
}
