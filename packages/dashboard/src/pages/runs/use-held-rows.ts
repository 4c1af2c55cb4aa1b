import { useState } from 'react';
import type { Run } from './run-view.js';

/** The rows to show, and how many are kept back. */
export interface HeldRows {
  readonly rows: readonly Run[] | undefined;
  readonly heldBack: number;
}

/**
 * While rows are selected, none is added or removed; the contents of a row are updated.
 * @param place changes with what the list is about; the rows of another list are never held
 */
export function useHeldRows(live: readonly Run[] | undefined, isHeld: boolean, place: string): HeldRows {
  const [held, setHeld] = useState<{ readonly place: string; readonly rows: readonly Run[] }>();
  if (isHeld && live !== undefined && held?.place !== place) setHeld({ place, rows: live });
  if (!isHeld && held !== undefined) setHeld(undefined);
  if (!isHeld || live === undefined || held === undefined || held.place !== place) {
    return { rows: live, heldBack: 0 };
  }
  const fresh = new Map(live.map((run) => [run.id, run]));
  const known = new Set(held.rows.map(({ id }) => id));
  return {
    rows: held.rows.map((run) => fresh.get(run.id) ?? run),
    heldBack: live.filter(({ id }) => !known.has(id)).length,
  };
}
