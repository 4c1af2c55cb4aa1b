import { keepPreviousData, useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { ApiError } from '../../api/api-error.js';
import { unwrap } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { useLive } from '../../api/use-live.js';
import { isEnded, type Attempt, type Run, type RunEvent } from './run-view.js';

const EVERY_MS = 1000;
/** A run that has ended is looked at now and then: it may be retried, or removed by retention. */
const ENDED_EVERY_MS = 30_000;
const NO_EVENTS: readonly RunEvent[] = [];

/** A run, without its timeline: kept fresh while something happens. */
export function useRun(id: string): UseQueryResult<Run> {
  const api = useApi();
  const queries = useQueryClient();
  const queryKey = ['runs', id, 'run'];
  const known = queries.getQueryState<Run>(queryKey);
  const isGone = known?.error instanceof ApiError && known.error.status === 404;
  const isOver = known?.data !== undefined && isEnded(known.data);
  return useLive({
    queryKey,
    queryFn: ({ signal }) =>
      unwrap(api.GET('/runs/{id}', { params: { path: { id }, query: { include_events: false } }, signal })),
    everyMs: isGone || isOver ? ENDED_EVERY_MS : EVERY_MS,
  });
}

/** The attempts of a run, oldest first; asked for again when the run goes on to another state or attempt. */
export function useAttempts({ id, state, current_attempt: current }: Run): UseQueryResult<Attempt[]> {
  const api = useApi();
  return useLive({
    queryKey: ['runs', id, 'attempts', current, state],
    queryFn: ({ signal }) => unwrap(api.GET('/runs/{id}/attempts', { params: { path: { id } }, signal })),
    everyMs: false,
  });
}

/** The whole timeline of a run. Only what is new is asked for. */
export function useTimeline(run: Run): UseQueryResult<readonly RunEvent[]> {
  const { id, state, current_attempt: current } = run;
  const api = useApi();
  const queries = useQueryClient();
  const all = ['runs', id, 'events'];
  return useQuery({
    // Another key for another standing: what came with the change is asked for at once.
    queryKey: [...all, current, state],
    queryFn: async ({ signal }) => {
      const known = queries
        .getQueriesData<readonly RunEvent[]>({ queryKey: all })
        .reduce((most, [, events = NO_EVENTS]) => (events.length > most.length ? events : most), NO_EVENTS);
      const last = known.at(-1);
      const query = last === undefined ? {} : { after: last.id };
      const { events } = await unwrap(
        api.GET('/runs/{id}/events', { params: { path: { id }, query }, signal }),
      );
      return events.length === 0 ? known : [...known, ...events];
    },
    placeholderData: keepPreviousData,
    refetchInterval: isEnded(run) ? false : EVERY_MS,
    // Comparing thousands of entries with themselves costs more than it saves.
    structuralSharing: false,
  });
}
