import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useRef } from 'react';
import { unwrap } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { newKey } from '../../lib/new-key.js';
import { inParts, type BulkAction } from './bulk-view.js';

/** Ids that one request may carry. */
const MOST_IDS = 100;

/** What became of one run; without a refusal it was done. */
export interface BulkResult {
  readonly id: string;
  readonly refusal?: string;
}

/**
 * Does something to many runs. After a lost answer it may be asked again: what was done is not done twice.
 * @param ids stay the same as long as the component lives
 */
export function useBulkAction(action: BulkAction, ids: readonly string[]) {
  const api = useApi();
  const queries = useQueryClient();
  const done = useRef(new Map<string, BulkResult>());
  const key = useRef(`dashboard-${action}-${newKey()}`);
  return useMutation({
    mutationFn: async (): Promise<readonly BulkResult[]> => {
      for (const [part, some] of inParts(ids, MOST_IDS).entries()) {
        if (some.every((id) => done.current.has(id))) continue;
        const call = {
          body: { ids: some },
          params: { header: { 'Idempotency-Key': `${key.current}-${part}` } },
        };
        const { results } = await unwrap(
          action === 'cancel' ? api.POST('/runs/batch/cancel', call) : api.POST('/runs/batch/retry', call),
        );
        for (const [place, id] of some.entries()) {
          const result = results[place];
          const refusal = result !== undefined && 'error' in result ? { refusal: result.error.detail } : {};
          done.current.set(id, { id, ...refusal });
        }
      }
      return [...done.current.values()];
    },
    onSettled: () =>
      Promise.all(['runs', 'overview'].map((name) => queries.invalidateQueries({ queryKey: [name] }))),
  });
}
