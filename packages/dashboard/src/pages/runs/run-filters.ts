import { readTimestamp } from '@longshore/common/json/read-timestamp';
import { toFilters, type Filters } from '../../hooks/use-url-filters.js';
import type { RunState } from '@longshore/client/constants';

/** What a list of runs is filtered by, and what each filter is called; those of {@link TIME_FILTERS} are ISO 8601. */
export const FILTER_LABELS = {
  state: 'State',
  op_definition: 'Definition',
  image: 'Image',
  topic: 'Topic',
  selector: 'Selector',
  concurrency_key: 'Concurrency key',
  label: 'Labels',
  name_prefix: 'Name begins with',
  cause: 'Cause of the end',
  exit_code: 'Exit code',
  worker_id: 'Worker',
  created_by: 'Created by (me, or the id of a key)',
  rerun_of: 'Rerun of (id of a run)',
  schedule: 'Schedule',
  group: 'Group',
  from: 'Created from',
  to: 'Created to',
  ended_from: 'Ended from',
  ended_to: 'Ended to',
} as const;
export type RunFilter = keyof typeof FILTER_LABELS;

// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- keys forgets the names
export const RUN_FILTERS = Object.keys(FILTER_LABELS) as readonly RunFilter[];

/** Filters by a time, with the first and the last second that pass. */
export const TIME_FILTERS = ['from', 'to', 'ended_from', 'ended_to'] as const satisfies readonly RunFilter[];
export type TimeFilter = (typeof TIME_FILTERS)[number];

export type RunFilters = Filters<RunFilter>;

/** Everything that the address of the page says: filters, and the run that the page adjoins. */
export const RUN_PARAMETERS = [...RUN_FILTERS, 'starting_after', 'ending_before'] as const;
export type RunParameters = Filters<(typeof RUN_PARAMETERS)[number]>;

/** Filters and place that show everything from its newest page on. */
export const NO_FILTERS = toFilters(RUN_FILTERS, () => '');

/** Leads to the newest page. */
export const NEWEST_PAGE = { starting_after: '', ending_before: '' } as const;

/** The filters alone, with times that can be read. */
export function filtersOf(parameters: RunParameters): RunFilters {
  const { starting_after: _after, ending_before: _before, ...filters } = parameters;
  const { from, to, ended_from, ended_to } = filters;
  return {
    ...filters,
    from: readable(from),
    to: readable(to),
    ended_from: readable(ended_from),
    ended_to: readable(ended_to),
  };
}

function readable(time: string): string {
  return readTimestamp(time) === null ? '' : time;
}

/** The filters as `GET /runs` takes them; times include their whole second. */
export function toQuery({ state, label, from, to, ended_from, ended_to, ...texts }: RunFilters) {
  return {
    ...(state === '' ? {} : { state: stateOf(state) }),
    ...Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== '')),
    ...(label === '' ? {} : { label: label.split(',').map((one) => one.trim()) }),
    ...(from === '' ? {} : { 'created[gte]': toSeconds(from) }),
    ...(to === '' ? {} : { 'created[lt]': toSeconds(to) + 1 }),
    ...(ended_from === '' ? {} : { 'ended[gte]': toSeconds(ended_from) }),
    ...(ended_to === '' ? {} : { 'ended[lt]': toSeconds(ended_to) + 1 }),
  };
}

export function isTimeFilter(name: RunFilter): name is TimeFilter {
  return TIME_FILTERS.some((one) => one === name);
}

export function isFiltered(filters: RunFilters): boolean {
  return RUN_FILTERS.some((name) => filters[name] !== '');
}

function stateOf(text: string): RunState {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a state that is none goes to the service, which says so
  return text as RunState;
}

function toSeconds(iso: string): number {
  return Math.floor(Number(readTimestamp(iso)) / 1000);
}
