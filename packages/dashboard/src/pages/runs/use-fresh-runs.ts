import { useQuery } from '@tanstack/react-query';
import { ApiError } from '../../api/api-error.js';
import { unwrap } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { inParts } from './bulk-view.js';
import type { Run } from './run-view.js';

/** Requests at a time. */
const TOGETHER = 8;
/** Above this number what was last seen has to do. */
const MOST = 200;

/**
 * The runs as they are now: what was seen of a run on another page may be long out of date.
 * @returns what was seen until the answers are there; `gone`: how many are there no longer
 */
export function useFreshRuns(
  seen: readonly Run[],
  isOn: boolean,
): { readonly runs: readonly Run[]; readonly gone: number } {
  const api = useApi();
  const ids = seen.map(({ id }) => id);
  const fresh = useQuery({
    queryKey: ['chosen-runs', ids],
    queryFn: async ({ signal }) => {
      const runs: Run[] = [];
      for (const part of inParts(ids, TOGETHER)) {
        const answers = part.map((id) => {
          const params = { path: { id }, query: { include_events: false } };
          return unwrap(api.GET('/runs/{id}', { params, signal })).catch(unlessGone);
        });
        runs.push(...(await Promise.all(answers)).filter((run) => run !== null));
      }
      return runs;
    },
    enabled: isOn && seen.length <= MOST,
    gcTime: 0,
  });
  const runs = fresh.data ?? seen;
  return { runs, gone: seen.length - runs.length };
}

function unlessGone(error: unknown): null {
  if (error instanceof ApiError && error.status === 404) return null;
  throw error;
}
