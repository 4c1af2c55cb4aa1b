import type { Filters } from '../../hooks/use-url-filters.js';
import type { RunState } from '../../components/state-badge.js';

/** What a list of runs is filtered by; `from` and `to` are ISO 8601. */
export const RUN_FILTERS = ['state', 'op_definition', 'image', 'topic', 'from', 'to'] as const;
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
  from: '',
  to: '',
};

/** Leads to the newest page. */
export const NEWEST_PAGE = { starting_after: '', ending_before: '' } as const;

/** The filters alone, with times that can be read. */
export function filtersOf(parameters: RunParameters): RunFilters {
  const { state, op_definition: definition, image, topic, from, to } = parameters;
  return {
    state,
    op_definition: definition,
    image,
    topic,
    from: Number.isNaN(Date.parse(from)) ? '' : from,
    to: Number.isNaN(Date.parse(to)) ? '' : to,
  };
}

/** The filters as `GET /runs` takes them; times include their whole second. */
export function toQuery({ state, op_definition: definition, image, topic, from, to }: RunFilters) {
  return {
    ...(state === '' ? {} : { state: stateOf(state) }),
    ...(definition === '' ? {} : { op_definition: definition }),
    ...(image === '' ? {} : { image }),
    ...(topic === '' ? {} : { topic }),
    ...(from === '' ? {} : { 'created[gte]': toSeconds(from) }),
    ...(to === '' ? {} : { 'created[lt]': toSeconds(to) + 1 }),
  };
}

export function isFiltered(filters: RunFilters): boolean {
  return RUN_FILTERS.some((name) => filters[name] !== '');
}

/** A time as an input of a browser has it: local, to the second. */
export function toLocalInput(iso: string): string {
  if (iso === '') return '';
  const date = new Date(iso);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString();
  // As browsers write it: another text for the same time would be put into the input at every change of the page.
  return local.slice(0, local.slice(16, 19) === ':00' ? 16 : 19);
}

/** The other way. */
export function fromLocalInput(text: string): string {
  const time = Date.parse(text);
  return Number.isNaN(time) ? '' : new Date(time).toISOString().replace('.000Z', 'Z');
}

function stateOf(text: string): RunState {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a state that is none goes to the service, which says so
  return text as RunState;
}

function toSeconds(iso: string): number {
  return Math.floor(Date.parse(iso) / 1000);
}
