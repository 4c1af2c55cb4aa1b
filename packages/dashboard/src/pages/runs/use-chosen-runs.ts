import { useCallback, useMemo, useState } from 'react';
import type { Run } from '../../api/use-api.js';
import type { Selection } from '../../components/table/data-table.js';

/** The runs that are chosen, on this page and on others. */
interface ChosenRuns {
  readonly runs: readonly Run[];
  readonly selection: Selection;
  readonly clear: () => void;
  readonly toggleAll: (runs: readonly Run[]) => void;
}

/**
 * Remembers chosen runs as they were last seen, also while another page is shown.
 * @param shown the runs of the page that is shown
 */
export function useChosenRuns(shown: readonly Run[] | undefined): ChosenRuns {
  const [chosen, setChosen] = useState<ReadonlyMap<string, Run>>(() => new Map());
  const onChange = useCallback(
    (ids: ReadonlySet<string>) =>
      setChosen((before) => {
        const known = new Map([...before, ...(shown ?? []).map((run) => [run.id, run] as const)]);
        return new Map([...known].filter(([id]) => ids.has(id)));
      }),
    [shown],
  );
  const selected = useMemo(() => new Set(chosen.keys()), [chosen]);
  const runs = useMemo(() => {
    const fresh = new Map(shown?.map((run) => [run.id, run]));
    return [...chosen.values()].map((run) => fresh.get(run.id) ?? run);
  }, [chosen, shown]);
  const selection = useMemo(() => ({ selected, onChange }), [selected, onChange]);
  const toggleAll = (page: readonly Run[]): void => {
    const ids = page.map(({ id }) => id);
    const isAll = ids.every((id) => selected.has(id));
    const others = [...selected].filter((id) => !ids.includes(id));
    onChange(new Set(isAll ? others : [...others, ...ids]));
  };
  const clear = useCallback(() => setChosen(new Map()), []);
  return { runs, selection, clear, toggleAll };
}

/** The rows to show, and how many are kept back. */
interface HeldRows {
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
