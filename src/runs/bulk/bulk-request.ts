import { parsedOf } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import type { Caller } from '../../auth/access.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { textMapProblem } from '../../common/http/validation/dto-decorators.js';
import { DtoPlan } from '../../common/http/validation/dto-plan.js';
import { fieldPath, VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import { BODY } from '../../common/http/validation/validation.pipe.js';
import type { BulkAction } from '../../database/entities/bulk-operation.entity.js';
import { LABELS } from '../dto/execution-options.dto.js';
import { RunFilterDto } from '../dto/list-runs.dto.js';
import { PRIORITY } from '../dto/timeouts-and-delivery.dto.js';
import type { LabelChanges } from '../machine/run.js';
import { readFilter, TIME_BOUNDS, type RunFilter } from '../reading/run-filter.js';

const FILTER = 'filter';
const TIMES: ReadonlySet<string> = new Set(
  TIME_BOUNDS.flatMap((bound) => [`created[${bound}]`, `ended[${bound}]`]),
);

/** The filter of a JSON body, where numbers are numbers, as the query of GET /runs has it. @throws InvalidRequest */
export function readFilterQuery(filter: JsonObject): RunFilterDto {
  const members: [string, JsonValue][] = Object.entries(parsedOf(filter));
  const problems = members.flatMap(([name, value]) => {
    if (value === '') return [`${fieldPath(FILTER, name)} must not be empty`];
    return name === 'exit_code' && typeof value === 'string'
      ? [`${fieldPath(FILTER, name)} must be an integer`]
      : [];
  });
  if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
  const query = Object.fromEntries(
    members.flatMap(([name, value]) => {
      if (value === null) return [];
      return [[name, TIMES.has(name) && typeof value === 'number' ? String(value) : value]];
    }),
  );
  const read = DtoPlan.of(RunFilterDto).read(query, { ...BODY, path: FILTER });
  if (read instanceof RunFilterDto) return read;
  throw new TypeError('the filter was read as another class');
}

/** A retry whose filter asks for no state is for these: others have to be named. */
const RETRIED_STATES = ['FAILED', 'CANCELLED'] as const;

/**
 * What an operation is for.
 * @throws InvalidRequest when the filter has no condition and the request does not say that it is for all runs
 */
export function checkedFilter(
  action: BulkAction,
  query: RunFilterDto,
  caller: Pick<Caller, 'keyId'>,
  isForAll: boolean,
): RunFilter {
  const filter = readFilter(query, caller);
  const { terms = [], created, ended = {}, ...fields } = filter;
  const hasCondition =
    terms.length > 0 ||
    Object.keys({ ...created, ...ended }).length > 0 ||
    Object.values(fields).some((value) => value !== undefined);
  if (hasCondition || isForAll) return action === 'retry' ? { ...filter, endedIn: RETRIED_STATES } : filter;
  throw new InvalidRequest(VALIDATION_FAILED, [
    'filter has no condition: all must be true to change all runs',
  ]);
}

/** The value of an action. @throws InvalidRequest for one that the action does not have */
export function checkedValue(action: BulkAction, value: JsonValue | undefined): number | LabelChanges | null {
  const problem = problemOf(action, value);
  if (problem !== undefined) throw new InvalidRequest(VALIDATION_FAILED, [problem]);
  if (!isJsonObject(value)) return typeof value === 'number' ? value : null;
  return Object.fromEntries(
    Object.entries(value).map(([key, label]) => [key, typeof label === 'string' ? label : null]),
  );
}

function problemOf(action: BulkAction, value: JsonValue | undefined): string | undefined {
  if (action === 'cancel' || action === 'retry') {
    return value === undefined ? undefined : `value must be absent: ${action} has none`;
  }
  if (value === undefined) return `value is required for ${action}`;
  if (action === 'labels') {
    const isEmpty = isJsonObject(value) && Object.keys(value).length === 0;
    return isEmpty ? 'value must have a label' : textMapProblem(value, LABELS, 'value');
  }
  const { min, max } = PRIORITY;
  return Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max
    ? undefined
    : `value must be an integer from ${min} to ${max}`;
}
