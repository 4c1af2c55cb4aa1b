import { readTimestamp } from '@longshore/common/json/read-timestamp';
import type { Filters } from '../../hooks/use-url-filters.js';
import type { RunState } from '@longshore/client/constants';

/** What a list of runs is filtered by; `from` and `to` are ISO 8601. */
export const RUN_FILTERS = [
  'state',
  'op_definition',
  'image',
  'topic',
  'selector',
  'concurrency_key',
  'label',
  'name_prefix',
  'cause',
  'exit_code',
  'from',
  'to',
] as const;
export type RunFilter = (typeof RUN_FILTERS)[number];
export type RunFilters = Filters<RunFilter>;

/** Everything that the address of the page says: filters, and the run that the page adjoins. */
export const RUN_PARAMETERS = [...RUN_FILTERS, 'starting_after', 'ending_before'] as const;
export type RunParameters = Filters<(typeof RUN_PARAMETERS)[number]>;

/** Filters and place that show everything from its newest page on. */
export const NO_FILTERS: RunFilters = {
  state: '',
  op_definition: '',
  image: '',
  topic: '',
  selector: '',
  concurrency_key: '',
  label: '',
  name_prefix: '',
  cause: '',
  exit_code: '',
  from: '',
  to: '',
};

/** Leads to the newest page. */
export const NEWEST_PAGE = { starting_after: '', ending_before: '' } as const;

/** The filters alone, with times that can be read. */
export function filtersOf(parameters: RunParameters): RunFilters {
  const { starting_after: _after, ending_before: _before, ...filters } = parameters;
  return { ...filters, from: readable(filters.from), to: readable(filters.to) };
}

function readable(time: string): string {
  return readTimestamp(time) === null ? '' : time;
}

/** The filters as `GET /runs` takes them; times include their whole second. */
export function toQuery({ state, label, from, to, ...texts }: RunFilters) {
  return {
    ...(state === '' ? {} : { state: stateOf(state) }),
    ...Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== '')),
    ...(label === '' ? {} : { label: label.split(',').map((one) => one.trim()) }),
    ...(from === '' ? {} : { 'created[gte]': toSeconds(from) }),
    ...(to === '' ? {} : { 'created[lt]': toSeconds(to) + 1 }),
  };
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
