import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { useEffect } from 'react';
import { unwrap } from '../../api/answers.js';
import { useApi, useLive, type Run, type Schemas } from '../../api/use-api.js';
import type { SetFilters } from '../../hooks/use-url-filters.js';
import { NEWEST_PAGE, toQuery, type RunFilters, type RunParameters } from './run-filters.js';

/** Runs of a page. */
export const PAGE_SIZE = 50;

/** A page of the list, and the ways to its neighbours. */
interface RunPage {
  readonly runs: readonly Run[] | undefined;
  /** Whether it is the page on which new runs appear. */
  readonly isNewest: boolean;
  readonly toNewer: (() => void) | undefined;
  readonly toOlder: (() => void) | undefined;
  readonly answer: UseQueryResult<Schemas['OpRunList']>;
}

/** The page of the list that the address names, kept fresh. */
export function useRunPage(
  filters: RunFilters,
  { starting_after: after, ending_before: before }: RunParameters,
  setParameters: SetFilters<keyof RunParameters>,
): RunPage {
  const api = useApi();
  const place = before === '' ? { starting_after: after } : { ending_before: before };
  const isNewest = after === '' && before === '';
  const answer = useLive({
    queryKey: ['runs', filters, place],
    queryFn: ({ signal }) =>
      unwrap(
        api.GET('/runs', {
          params: {
            query: {
              ...toQuery(filters),
              ...(isNewest ? {} : place),
              limit: PAGE_SIZE,
              include_events: false,
            },
          },
          signal,
        }),
      ),
  });
  const { data, isPlaceholderData: isOld } = answer;
  const isFirst = before !== '' && data !== undefined && !isOld && !data.has_more;
  // A page that is not full any more because it is the newest one: new runs are to appear on it.
  useEffect(() => {
    if (isFirst) setParameters(NEWEST_PAGE);
  }, [isFirst, setParameters]);

  const runs = data?.data;
  const [first, last] = [runs?.[0], runs?.at(-1)];
  const go = (change: Partial<RunParameters>) => (): void => {
    setParameters({ ...NEWEST_PAGE, ...change }, { isNewPage: true });
    scrollTo({ top: 0 });
  };
  const hasOlder = before === '' ? data?.has_more === true : runs !== undefined && runs.length > 0;
  return {
    runs,
    isNewest,
    answer,
    toNewer: isNewest || isOld ? undefined : go(first === undefined ? {} : { ending_before: first.id }),
    toOlder: hasOlder && !isOld && last !== undefined ? go({ starting_after: last.id }) : undefined,
  };
}

/** Counted up to here; beyond it is only known that there are more. */
const COUNTED = 20;
const EVERY_MS = 4000;

/** Runs that were created since the page was opened. */
interface NewRuns {
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
