import { keepPreviousData, useQuery, type QueryKey, type UseQueryResult } from '@tanstack/react-query';

/** How often live data is asked for, in milliseconds, unless a page says otherwise. */
const EVERY_MS = 2000;

/** What to keep fresh. */
export interface LiveQuery<T> {
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
