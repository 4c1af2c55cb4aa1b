import { RUN_OPTIONS } from '@longshore/client/constants';
import { fromBase64 } from '@longshore/common/binary';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { readTraceContext } from '@longshore/common/tracing/trace-context';
import { readConstraints } from './constraints.js';
import { readArtifacts } from './run-artifacts.js';
import type {
  ClaimedRun,
  EndingRun,
  HeldAttempt,
  KeyView,
  LogPosition,
  LostRun,
  RunContainer,
  RunSecrets,
  RunView,
  TimelineEntry,
} from './service-api.js';

/** Null: it is not the run. */
export function readRun(run: unknown, runId: string): RunView | null {
  if (!isJsonObject(run) || run['id'] !== runId) return null;
  const { state, current_attempt: currentAttempt, image, inputs, outputs, execution_summary: summary } = run;
  if (typeof state !== 'string' || typeof image !== 'string' || typeof currentAttempt !== 'number')
    return null;
  if (!isJsonObject(inputs) || !isJsonObject(outputs) || !isJsonObject(summary)) return null;
  const [container, selector] = [readContainer(run), readList(run['selector'])];
  const constraints = readConstraints(run['constraints']);
  const artifacts = readArtifacts(run['artifacts']);
  if (container === null || selector === undefined || constraints === null || artifacts === undefined)
    return null;
  const workerId = summary['worker_id'];
  return {
    state,
    currentAttempt,
    image,
    inputs,
    outputs,
    workerId: typeof workerId === 'string' ? workerId : null,
    constraints,
    container,
    ...artifacts,
    selector: selector ?? [],
    mustStartInTime: isJsonObject(run['timeouts']) && typeof run['timeouts']['start_within_s'] === 'number',
    trace: readTraceContext(run['traceparent'], undefined),
  };
}

/** The timeline of a run; null: it is not the run. */
export function readTimeline(run: unknown, runId: string): TimelineEntry[] | null {
  if (!isJsonObject(run) || run['id'] !== runId || !Array.isArray(run['events'])) return null;
  return run['events'].flatMap(readTimelineEntry);
}

/** Empty: not of the documented shape. */
function readTimelineEntry(entry: unknown): TimelineEntry[] {
  if (!isJsonObject(entry)) return [];
  const { id: index, attempt, type, msg, payload } = entry;
  if (typeof index !== 'number' || typeof attempt !== 'number' || typeof type !== 'string') return [];
  if (typeof msg !== 'string' && typeof msg !== 'number') return [];
  return [{ index, attempt, type, msg, payload: isJsonObject(payload) ? payload : {} }];
}

/** Empty: not a lost run of the documented shape. */
export function readLostRun(op: unknown): LostRun[] {
  if (!isJsonObject(op)) return [];
  const { id, state, attempt: currentAttempt, worker_id: workerId } = op;
  if (typeof id !== 'string' || typeof state !== 'string' || typeof currentAttempt !== 'number') return [];
  return [{ id, state, currentAttempt, workerId: typeof workerId === 'string' ? workerId : null }];
}

/** Empty: not an attempt of the documented shape. */
export function readEndingRun(op: unknown): EndingRun[] {
  if (!isJsonObject(op)) return [];
  const { id, attempt } = op;
  return typeof id === 'string' && typeof attempt === 'number' ? [{ id, attempt }] : [];
}

/** Null: not of the documented shape. */
export function readHeldAttempts(answer: unknown): HeldAttempt[] | null {
  const runs = isJsonObject(answer) ? answer['runs'] : null;
  if (!Array.isArray(runs)) return null;
  const held = runs.flatMap((run): HeldAttempt[] => {
    const log = readLogPosition(run);
    const [read] = readEndingRun(run);
    return log === null || read === undefined ? [] : [{ runId: read.id, attempt: read.attempt, log }];
  });
  return held.length === runs.length ? held : null;
}

/** Null: not of the documented shape. */
export function readLogPosition(answer: unknown): LogPosition | null {
  if (!isJsonObject(answer)) return null;
  const { next_chunk: nextChunk, next_line: nextLine, cursor } = answer;
  if (typeof nextChunk !== 'number' || typeof nextLine !== 'number') return null;
  return { nextChunk, nextLine, ...(typeof cursor === 'string' && { cursor }) };
}

/** Null: not of the documented shape. */
export function readKey(answer: unknown): KeyView | null {
  if (!isJsonObject(answer)) return null;
  const [scopes, workerIds] = [readList(answer['scopes']), readList(answer['worker_ids'])];
  return scopes && workerIds !== undefined ? { scopes, workerIds } : null;
}

/** Null: not of the documented shape. */
export function readSecrets(answer: unknown): RunSecrets | null {
  if (!isJsonObject(answer) || answer['env'] === undefined) return null;
  const [env, texts] = [readTexts(answer['env']), readTexts(answer['files'])];
  const binary = readBytes(answer['files_base64']);
  if (env === null || texts === null || binary === null) return null;
  const files = { ...texts, ...binary };
  const { registry } = answer;
  if (registry === undefined || registry === null) return { env, files, registry: null };
  if (!isJsonObject(registry)) return null;
  const { server, username, password } = registry;
  const isLogin = typeof server === 'string' && typeof username === 'string' && typeof password === 'string';
  return isLogin ? { env, files, registry: { server, username, password } } : null;
}

/** Reads the value of an option by its kind; undefined: it is something else. */
const READ_OPTION = {
  map: (value: unknown) => readTexts(value) ?? undefined,
  list: readList,
  'object-list': readObjects,
  'object-map': readObjectMap,
  'record-list': readRecords,
  text: (value: unknown = null) => (value === null || typeof value === 'string' ? value : undefined),
  integers: readIntegers,
  integer: (value: unknown = null) => (value === null || Number.isInteger(value) ? value : undefined),
} as const;

/** Null: not of the documented shape, so that the run must not be executed. */
export function readContainer(op: JsonObject): RunContainer | null {
  const options = RUN_OPTIONS.map(
    ({ name, kind, default: unset = op[name] }) => [name, READ_OPTION[kind](op[name] ?? unset)] as const,
  );
  const [name, labels] = [READ_OPTION.text(op['name']), READ_OPTION.map(op['labels'])];
  const isRead = [name, labels, ...options.map(([, value]) => value)].every((value) => value !== undefined);
  return isRead ? Object({ name, labels, ...Object.fromEntries(options) }) : null;
}

/** Texts by name; absent: empty; null: it is something else. */
function readTexts(value: unknown = {}): Record<string, string> | null {
  if (!isJsonObject(value)) return null;
  const entries = Object.entries(value).flatMap(([name, text]) =>
    typeof text === 'string' ? [[name, text] as const] : [],
  );
  return entries.length === Object.keys(value).length ? Object.fromEntries(entries) : null;
}

/** Bytes by name; absent: empty; null: it is something else. */
function readBytes(value: unknown): Record<string, Buffer> | null {
  const texts = Object.entries(readTexts(value) ?? { '': '-' });
  const decoded = texts.flatMap(([name, text]) => {
    const bytes = fromBase64(text);
    return bytes === undefined ? [] : [[name, bytes] as const];
  });
  return decoded.length === texts.length ? Object.fromEntries(decoded) : null;
}

/** Integers by name; absent: empty; undefined: it is something else. */
function readIntegers(value: unknown = {}): JsonObject | undefined {
  return isJsonObject(value) && Object.values(value).every(Number.isInteger) ? value : undefined;
}

/** A list of texts; null: there is none; undefined: it is something else. */
function readList(value: unknown = null): string[] | null | undefined {
  if (value === null) return null;
  if (!Array.isArray(value)) return undefined;
  const texts = value.filter((text) => typeof text === 'string');
  return texts.length === value.length ? texts : undefined;
}

/** Maps of texts; absent: empty; undefined: it is something else. */
function readObjects(value: unknown = []): readonly Record<string, string>[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const read = value.map((item) => readTexts(item));
  return read.every((item) => item !== null) ? read : undefined;
}

/** Maps of texts, integers and booleans; absent: empty; undefined: it is something else. */
function readRecords(value: unknown = []): readonly JsonObject[] | undefined {
  if (!Array.isArray(value) || !value.every(isJsonObject)) return undefined;
  return value.every((item) => Object.values(item).every(isPlain)) ? value : undefined;
}

function isPlain(member: unknown): boolean {
  return typeof member === 'string' || typeof member === 'boolean' || Number.isInteger(member);
}

/** Maps of texts by name; absent: empty; undefined: it is something else. */
function readObjectMap(value: unknown = {}): Readonly<Record<string, Record<string, string>>> | undefined {
  if (!isJsonObject(value)) return undefined;
  const names = Object.keys(value);
  const items = readObjects(Object.values(value));
  return items && Object.fromEntries(items.map((item, index) => [names[index], item]));
}

/** Absent: it is in none. */
function readArray(array: unknown): Pick<ClaimedRun, 'array'> {
  if (!isJsonObject(array)) return {};
  const { index, size } = array;
  return typeof index === 'number' && typeof size === 'number' ? { array: { index, size } } : {};
}

/** Null: not of the documented shape. */
export function readClaimedRun(op: unknown): ClaimedRun | null {
  if (!isJsonObject(op)) return null;
  const { id, image, inputs, attempt, scheduled_for: scheduledFor } = op;
  if (typeof id !== 'string' || typeof image !== 'string' || !isJsonObject(inputs)) return null;
  const container = readContainer(op);
  const constraints = isJsonObject(op['constraints']) ? readConstraints(op['constraints']) : null;
  const artifacts = readArtifacts(op['artifacts']);
  if (container === null || constraints === null || artifacts === undefined) return null;
  return {
    id,
    image,
    inputs,
    constraints,
    attempt: typeof attempt === 'number' ? attempt : null,
    container,
    ...artifacts,
    ...(typeof scheduledFor === 'string' && { scheduledFor }),
    ...readArray(op['array']),
    trace: readTraceContext(op['traceparent'], op['tracestate']),
  };
}
