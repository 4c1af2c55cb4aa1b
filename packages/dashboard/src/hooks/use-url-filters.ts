import { useCallback, useMemo } from 'react';
import { useSearchParams } from 'wouter';

/** The values of filters; an empty text is a filter that is not set. */
export type Filters<N extends string> = Readonly<Record<N, string>>;

/** Changes the filters that are named; the others stay. */
export type SetFilters<N extends string> = (
  change: Partial<Filters<N>>,
  options?: { readonly isNewPage?: boolean },
) => void;

/** Filters by their names. */
export function toFilters<N extends string>(names: readonly N[], valueOf: (name: N) => string): Filters<N> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- fromEntries forgets the names
  return Object.fromEntries(names.map((name) => [name, valueOf(name)])) as Filters<N>;
}

/**
 * The filters of a page, kept in its address, so that a link or a reload shows the same.
 * @param names of the query parameters; list them in a constant outside the component
 * @returns the values, and a function that changes some: it replaces the entry in the history of the browser, or adds
 *   one with `isNewPage` (the next page of a list, something opened)
 */
export function useUrlFilters<N extends string>(names: readonly N[]): [Filters<N>, SetFilters<N>] {
  const [params, setParams] = useSearchParams();
  const filters = useMemo(() => toFilters(names, (name) => params.get(name) ?? ''), [names, params]);
  const setFilters = useCallback<SetFilters<N>>(
    (change, { isNewPage = false } = {}) => {
      setParams(
        (present) => {
          const next = new URLSearchParams(present);
          for (const [name, value] of Object.entries<string | undefined>(change)) {
            if (value === undefined || value === '') next.delete(name);
            else next.set(name, value);
          }
          return next;
        },
        { replace: !isNewPage },
      );
    },
    [setParams],
  );
  return [filters, setFilters];
}
