import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useRef } from 'react';
import { unwrap } from '../../../api/unwrap.js';
import { useApi, type Schemas } from '../../../api/use-api.js';
import { newKey } from '../../../lib/new-key.js';
import { isFiltered, toQuery, type RunFilters } from '../run-filters.js';

/** Milliseconds between two looks at an operation that is running. */
const EVERY_MS = 500;

/** What can be done to all runs that match. */
export type MatchingAction = 'cancel' | 'retry' | 'labels';

/** Labels to set, by key; null removes one. */
export type LabelChanges = Readonly<Record<string, string | null>>;

function filterOf(filters: RunFilters) {
  const code = filters.exit_code === '' ? {} : { exit_code: Number(filters.exit_code) };
  return { filter: { ...toQuery(filters), ...code }, ...(isFiltered(filters) ? {} : { all: true }) };
}

/** How many runs match the filters, as far as they may be changed at once. */
export function useMatching(filters: RunFilters, isOn: boolean) {
  const api = useApi();
  return useQuery({
    queryKey: ['matching-runs', filters],
    queryFn: async ({ signal }) => {
      const body = { action: 'cancel', ...filterOf(filters), dry_run: true } as const;
      return (await unwrap(api.POST('/bulk-operations', { body, signal }))).matched;
    },
    enabled: isOn,
    gcTime: 0,
    retry: false,
  });
}

/** Changes all runs that match the filters, in the service, and follows how far it is. */
export function useBulkOperation(action: MatchingAction, filters: RunFilters, expect: number | undefined) {
  const api = useApi();
  const queries = useQueryClient();
  const key = useRef(`dashboard-${action}-${newKey()}`);
  const start = useMutation({
    mutationFn: async (labels: LabelChanges): Promise<string> => {
      const value = action === 'labels' ? { value: labels } : {};
      const body = { action, ...filterOf(filters), ...value, ...(expect === undefined ? {} : { expect }) };
      const params = { header: { 'Idempotency-Key': key.current } };
      const started = await unwrap(api.POST('/bulk-operations', { body, params }));
      if ('id' in started) return started.id;
      throw new Error('The service answered with another response');
    },
    // The number may have changed: the question is asked again with the new one.
    onError: () => queries.invalidateQueries({ queryKey: ['matching-runs'] }),
  });
  const id = start.data;
  const path = { id: id ?? '' };
  const operation = useQuery({
    queryKey: ['bulk-operations', id],
    queryFn: async ({ signal }): Promise<Schemas['BulkOperation']> => {
      const shown = await unwrap(api.GET('/bulk-operations/{id}', { params: { path }, signal }));
      if (shown.state !== 'running') {
        await Promise.all(
          ['runs', 'overview'].map((name) => queries.invalidateQueries({ queryKey: [name] })),
        );
      }
      return shown;
    },
    enabled: id !== undefined,
    refetchInterval: ({ state }) =>
      state.data === undefined || state.data.state === 'running' ? EVERY_MS : false,
  });
  const stop = useMutation({
    mutationFn: () => unwrap(api.POST('/bulk-operations/{id}/stop', { params: { path } })),
    onSettled: () => queries.invalidateQueries({ queryKey: ['bulk-operations', id] }),
  });
  return { start, operation, stop };
}
