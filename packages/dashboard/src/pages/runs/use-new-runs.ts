import { useQuery } from '@tanstack/react-query';
import { unwrap } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { useLive } from '../../api/use-live.js';
import { toQuery, type RunFilters } from './run-filters.js';

/** Counted up to here; beyond it is only known that there are more. */
const COUNTED = 20;
const EVERY_MS = 4000;

/** Runs that were created since the page was opened. */
export interface NewRuns {
  readonly count: number;
  readonly areMore: boolean;
}

/**
 * Counts the runs that have come since a page that does not show them was opened.
 * @param isOn false: the page shows them by itself
 */
export function useNewRuns(filters: RunFilters, isOn: boolean): NewRuns {
  const api = useApi();
  const query = { ...toQuery(filters), include_events: false };
  // Asked once, and forgotten as soon as the page is left for one that shows new runs.
  const newest = useQuery({
    queryKey: ['newest-run', filters, isOn],
    queryFn: async ({ signal }) => {
      const params = { query: { ...query, limit: 1 } };
      return (await unwrap(api.GET('/runs', { params, signal }))).data[0]?.id ?? null;
    },
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    enabled: isOn,
  });
  const since = newest.data ?? null;
  const fresh = useLive({
    queryKey: ['new-runs', filters, since],
    queryFn: async ({ signal }) => {
      const params = {
        query: { ...query, ...(since === null ? {} : { ending_before: since }), limit: COUNTED },
      };
      const { data, has_more: areMore } = await unwrap(api.GET('/runs', { params, signal }));
      return { count: data.length, areMore };
    },
    everyMs: EVERY_MS,
    enabled: isOn && newest.isSuccess,
  });
  const isKnown = isOn && fresh.data !== undefined && !fresh.isPlaceholderData;
  return isKnown ? fresh.data : { count: 0, areMore: false };
}
