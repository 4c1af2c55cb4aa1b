import {
  queryOptions,
  useQuery,
  useQueryClient,
  type QueryClient,
  type UseQueryResult,
} from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { ApiError, unwrap, unwrapPages } from '../../api/answers.js';
import { useApi, useLive, type Run, type Schemas } from '../../api/use-api.js';
import { usesFiles } from '../../files/file-refs.js';
import { isEnded, type Attempt, type RunEvent } from './run-view.js';

const EVERY_MS = 1000;
const EXPLAINED_EVERY_MS = 2000;
const ARTIFACTS_EVERY_MS = 5000;
/** A run that has ended is looked at now and then: it may be retried, or removed by retention. */
const ENDED_EVERY_MS = 30_000;

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
    queryFn: ({ signal }) =>
      unwrapPages(
        ({ after }) => {
          const query = after === undefined ? {} : { after: Number(after) };
          return api.GET('/runs/{id}/attempts', { params: { path: { id }, query }, signal });
        },
        ({ attempt }) => String(attempt),
      ),
    everyMs: false,
  });
}

/** What a run has left. */
export function useArtifacts(run: Run, enabled = true): UseQueryResult<Schemas['Artifact'][]> {
  const api = useApi();
  const { id, state, current_attempt: attempt } = run;
  return useLive({
    queryKey: ['runs', id, 'artifacts', attempt, state],
    queryFn: ({ signal }) => unwrap(api.GET('/runs/{id}/artifacts', { params: { path: { id } }, signal })),
    everyMs: isEnded(run) ? false : ARTIFACTS_EVERY_MS,
    enabled,
  });
}

/** Whether a run gets or has left files. The service is asked only about a run that does not tell, where there is a store. */
export function useHasFiles(run: Run): boolean {
  const api = useApi();
  const told = usesFiles(run);
  const isAsked = told === undefined;
  const { data: overview } = useQuery({
    queryKey: ['overview'],
    queryFn: ({ signal }) => unwrap(api.GET('/overview', { signal })),
    enabled: isAsked,
    staleTime: Infinity,
  });
  const hasStore = overview !== undefined && overview.files.state !== 'off';
  const { data: left = [] } = useArtifacts(run, isAsked && hasStore);
  return told ?? left.length > 0;
}

/** Why a run is in its state; undefined until the answer for its present state and attempt is there. */
export function useExplanation(run: Run): Schemas['RunExplanation'] | undefined {
  const api = useApi();
  const { id, state, current_attempt: attempt } = run;
  const { data } = useLive({
    queryKey: ['runs', id, 'explain', isEnded(run) ? `${state} ${attempt}` : 'now'],
    queryFn: ({ signal }) => unwrap(api.GET('/runs/{id}/explain', { params: { path: { id } }, signal })),
    everyMs: isEnded(run) ? false : EXPLAINED_EVERY_MS,
  });
  return data?.state === state && data.attempt === attempt ? data : undefined;
}

/** Begins to read the timeline of a run before the run itself is there. */
export function useEarlyTimeline(id: string): void {
  const queries = useQueryClient();
  const first = useFirstEvents(id);
  useEffect(() => void queries.prefetchQuery(first), [queries, first]);
}

/** The whole timeline of a run, shown as soon as its first part is there. Only what is new is asked for. */
export function useTimeline(run: Run): UseQueryResult<readonly RunEvent[]> {
  const { id, state, current_attempt: current } = run;
  const api = useApi();
  const queries = useQueryClient();
  const first = useFirstEvents(id);
  const { data: early } = useQuery(first);
  return useQuery({
    // Another key for another standing: what came with the change is asked for at once.
    queryKey: ['runs', id, 'events', current, state],
    queryFn: async ({ signal }) => {
      const known = longest(queries, id) ?? (await queries.ensureQueryData(first));
      const last = known.at(-1);
      const query = last === undefined ? {} : { after: last.id };
      const { events } = await unwrap(
        api.GET('/runs/{id}/events', { params: { path: { id }, query }, signal }),
      );
      return events.length === 0 ? known : [...known, ...events];
    },
    placeholderData: (previous) => previous ?? early,
    refetchInterval: isEnded(run) ? false : EVERY_MS,
    // Comparing thousands of entries with themselves costs more than it saves.
    structuralSharing: false,
  });
}

function useFirstEvents(id: string) {
  const api = useApi();
  return useMemo(
    () =>
      queryOptions({
        queryKey: ['runs', id, 'events', 'first'],
        queryFn: async ({ signal }): Promise<readonly RunEvent[]> => {
          const { events } = await unwrap(api.GET('/runs/{id}/events', { params: { path: { id } }, signal }));
          return events;
        },
        staleTime: Infinity,
        structuralSharing: false,
      }),
    [api, id],
  );
}

/** The longest part of the timeline that was read so far; undefined: none. */
function longest(queries: QueryClient, id: string): readonly RunEvent[] | undefined {
  return queries
    .getQueriesData<readonly RunEvent[]>({ queryKey: ['runs', id, 'events'] })
    .map(([, events]) => events)
    .reduce((most, events) => ((events?.length ?? -1) > (most?.length ?? -1) ? events : most), undefined);
}
