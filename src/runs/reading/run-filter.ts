import { NIL } from 'uuid';
import type { Caller } from '../../auth/access.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { FILTER_TIME_FORM, readFilterTime } from '@longshore/common/json/read-timestamp';
import { clip } from '@longshore/common/json/text';
import { MAX_TAGS } from '../dto/execution-options.dto.js';
import { stateOfCause } from '../machine/event-types.js';
import { isRunState, RUN_STATES, type RunState, type TerminalState } from '../machine/run-state.js';
import { DEFAULT_RUN_LIMIT, type ListRunsQueryDto, type RunFilterDto } from '../dto/list-runs.dto.js';

export const TIME_BOUNDS = ['gte', 'lte', 'gt', 'lt'] as const;
export type TimeBound = (typeof TIME_BOUNDS)[number];

/** A range of time. */
export type TimeRange = Readonly<Partial<Record<TimeBound, Date>>>;

export interface RunFilter {
  readonly state?: RunState | undefined;
  /** Only runs that have ended in one of these states pass; counts where the filter asks for no state. */
  readonly endedIn?: readonly TerminalState[] | undefined;
  readonly definitionId?: string | undefined;
  readonly image?: string | undefined;
  readonly topic?: string | undefined;
  readonly concurrencyKey?: string | undefined;
  readonly name?: string | undefined;
  readonly namePrefix?: string | undefined;
  readonly cause?: string | undefined;
  readonly exitCode?: number | undefined;
  /** Groups of terms of `run_terms`: a run has at least one of each group. A run has only one term of a group. */
  readonly terms?: readonly (readonly string[])[] | undefined;
  /** Worker of the current attempt. */
  readonly workerId?: string | undefined;
  /** Id of the API key that created it (`Caller.keyId`). */
  readonly createdBy?: string | undefined;
  /** Id of the run that it repeats. */
  readonly rerunOf?: string | undefined;
  /** Id of the schedule that made it. */
  readonly scheduleId?: string | undefined;
  /** Id of the group that it is a member of. */
  readonly groupId?: string | undefined;
  readonly created: TimeRange;
  /** Only runs that have ended pass; absent: no condition. */
  readonly ended?: TimeRange | undefined;
}

/** A page of the list: the runs older or newer than the cursor, the id of a run; without one, the newest runs. */
export interface RunPage {
  readonly limit: number;
  readonly direction: 'older' | 'newer';
  readonly cursor?: string | undefined;
}

/** The state that the filter asks for: a cause belongs to one state, and only FAILED runs have an exit code. */
export function stateOf({ state, cause, exitCode }: RunFilter): RunState | undefined {
  if (cause !== undefined) return stateOfCause(cause);
  return exitCode === undefined ? state : 'FAILED';
}

/** The states that a run must be in; undefined: any. */
export function statesOf(filter: RunFilter): readonly RunState[] | undefined {
  const state = stateOf(filter);
  return state === undefined ? filter.endedIn : [state];
}

/** @param caller whom `me` names. @throws InvalidRequest when states contradict each other or a value cannot be read */
export function readFilter(query: RunFilterDto, caller: Pick<Caller, 'keyId'>): RunFilter {
  const [state, status] = [query.state, query.status].map((name) =>
    name === undefined ? undefined : checkedState(name),
  );
  if (state !== undefined && status !== undefined && state !== status) {
    throw new InvalidRequest('state and status must match when both are provided');
  }
  const ended = readRange(query, 'ended');
  return {
    state: state ?? status,
    definitionId: query.op_definition,
    image: query.image,
    topic: query.topic,
    concurrencyKey: query.concurrency_key,
    name: query.name,
    namePrefix: query.name_prefix,
    cause: query.cause,
    exitCode: query.exit_code,
    terms: [
      ...(query.selector === undefined ? [] : readTags(query.selector)).map((tag) => [`selector:${tag}`]),
      ...readLabels(query.label ?? []),
    ],
    workerId: query.worker_id,
    createdBy: query.created_by === 'me' ? caller.keyId : query.created_by,
    rerunOf: query.rerun_of,
    scheduleId: query.schedule,
    groupId: query.group,
    created: readRange(query, 'created'),
    ended: Object.keys(ended).length === 0 ? undefined : ended,
  };
}

function readRange(query: RunFilterDto, name: 'created' | 'ended'): TimeRange {
  return Object.fromEntries(
    TIME_BOUNDS.flatMap((bound) => {
      const text = query[`${name}[${bound}]`];
      return text === undefined ? [] : [[bound, readMoment(name, bound, text)]];
    }),
  );
}

/** @throws InvalidRequest when both cursors are given */
export function readPage(query: ListRunsQueryDto): RunPage {
  const { starting_after: after, ending_before: before, limit = DEFAULT_RUN_LIMIT } = query;
  if (after !== undefined && before !== undefined) {
    throw new InvalidRequest('Only one of starting_after and ending_before may be given');
  }
  return before === undefined
    ? { limit, direction: 'older', cursor: after }
    : { limit, direction: 'newer', cursor: before };
}

/** The first and the last id that begin as the query says; undefined: it does not. @throws InvalidRequest for another condition beside it */
export function readIdRange(query: ListRunsQueryDto): readonly [first: string, last: string] | undefined {
  const { id_prefix: prefix, limit: _, include_events: __, ...conditions } = query;
  if (prefix === undefined) return undefined;
  const other = Object.entries(conditions).find(([, value]) => value !== undefined)?.[0];
  if (other !== undefined) throw new InvalidRequest(`id_prefix and ${other} must not be given together`);
  const [first, last] = ['0', 'f'].map((digit) => prefix + NIL.slice(prefix.length).replaceAll('0', digit));
  return [String(first), String(last)];
}

/** @throws InvalidRequest for a text that is not a state, in upper or lower case */
export function checkedState(text: string): RunState {
  const state = text.toUpperCase();
  if (isRunState(state)) return state;
  throw new InvalidRequest(`Invalid state '${clip(text, 64)}'`, [
    `a state is one of ${RUN_STATES.join(', ')}`,
  ]);
}

function readTags(text: string): string[] {
  const tags = [...new Set(text.split(','))];
  if (tags.includes('') || tags.length > MAX_TAGS) {
    throw new InvalidRequest(`selector must be 1 to ${MAX_TAGS} tags, separated by commas`);
  }
  return tags;
}

/** The terms of labels, grouped by key; `key` alone needs no value of it. */
export function readLabels(labels: readonly string[]): string[][] {
  const byKey = new Map<string, string[]>();
  for (const label of new Set(labels)) {
    const [key = ''] = label.split('=', 1);
    byKey.set(key, [...(byKey.get(key) ?? []), `label:${label}`]);
  }
  return [...byKey].map(([key, terms]) => (terms.includes(`label:${key}`) ? [`label:${key}`] : terms));
}

function readMoment(name: string, bound: TimeBound, text: string): Date {
  const moment = readFilterTime(text);
  if (moment !== null) return moment;
  throw new InvalidRequest(`Invalid ${name} timestamp`, [`${name}[${bound}] must be ${FILTER_TIME_FORM}`]);
}
