import { createLongshoreClient, type LongshoreClient, type Schemas } from '@longshore/client';
import {
  keepPreviousData,
  MutationCache,
  QueryCache,
  QueryClient,
  useQuery,
  type QueryKey,
  type UseQueryResult,
} from '@tanstack/react-query';
import { useMemo } from 'react';
import { SERVICE_URL } from '../lib/addresses.js';
import { useSession } from '../session/session-context.js';
import { isKeyRefused } from './answers.js';
import { serviceFetch } from './service-fetch.js';

export type { LongshoreClient, Schemas } from '@longshore/client';

/** A run as the API has it. */
export type Run = Schemas['OpRun'];

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

/** How often live data is asked for, in milliseconds, unless a page says otherwise. */
const EVERY_MS = 2000;

/** What to keep fresh. */
interface LiveQuery<T> {
  readonly queryKey: QueryKey;
  readonly queryFn: (context: { readonly signal: AbortSignal }) => Promise<T>;
  /** Milliseconds between two answers; false: asked once, until something invalidates it. */
  readonly everyMs?: number | false;
  readonly enabled?: boolean;
}

/**
 * Data that is kept current while the page is visible: asked for again and again, not while the tab is hidden, at once when it is
 * shown again. What was there stays until the new data is, also when the key of the query changes (the next page of a
 * list), so nothing flickers.
 */
export function useLive<T>({
  queryKey,
  queryFn,
  everyMs = EVERY_MS,
  enabled = true,
}: LiveQuery<T>): UseQueryResult<T> {
  return useQuery({
    queryKey,
    queryFn,
    enabled,
    refetchInterval: everyMs,
    refetchOnWindowFocus: 'always',
    placeholderData: keepPreviousData,
  });
}

/**
 * The cache of answers. Requests are not repeated after an error: while the service is unreachable the shell asks for it and
 * refreshes everything when it is back.
 * @param onKeyRefused called when the service no longer takes the key
 */
export function createQueryClient(onKeyRefused: () => void): QueryClient {
  const onError = (error: unknown): void => {
    if (isKeyRefused(error)) onKeyRefused();
  };
  return new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      // The browser's idea of being offline says nothing about a service on the same machine.
      queries: { retry: false, networkMode: 'always', staleTime: 1000 },
      mutations: { retry: false, networkMode: 'always' },
    },
  });
}
