import { EVENT_TYPES } from '@longshore/client/constants';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { JsonRefused } from '@longshore/common/json/read-json';
import { lastState, shownLine, writesOver } from '@longshore/common/shown-text';
import { readStorable } from '../runtime/storable-json.js';
import type { SecretMask } from '../secrets/secret-mask.js';
import type { RunEvent } from '../service-api/service-api.js';
import type { MaskedLine } from '../secrets/mask-lines.js';

/** Longer lines are not parsed, in UTF-16 units. */
export const MAX_EVENT_LINE = 64 * 1024;

/** Type of an event that tells that others are dropped. */
export const EVENTS_DROPPED = 'EVENTS_DROPPED';

/** Type of an event that tells what the engine has not done of what a run asked for. */
export const ENGINE_WARNING = 'ENGINE_WARNING';

const EVENT_TYPE = /^[A-Z][A-Z0-9_]{0,63}$/;

/** The type of an event, in a line that is not parsed. */
const TYPE_KEY = /"type"\s*:\s*"([A-Z][A-Z0-9_]{0,63})"/;

const MSG_KEY = /"msg"\s*:/;

/** A string, of which the end may be missing, or a bracket. */
const STRING_OR_BRACKET = /"[^"\\]*(?:\\[^][^"\\]*)*"?|[{}[\]]/g;

/** Event types that only the worker and the service may report. */
const RESERVED: ReadonlySet<string> = new Set([
  'SUBMITTED',
  ENGINE_WARNING,
  ...EVENT_TYPES.filter((type) => type !== 'PROGRESS'),
]);

/**
 * Parses a log line as an event: a JSON object with `type`, `msg` (text or integer) and optionally a `payload` object.
 * Other keys are ignored. PROGRESS needs an integer from 0 to 100. Characters that cannot be stored become U+FFFD.
 * @returns null for every other line; of an event with a number that is too long, what is told of it
 */
export function parseLogEvent(line: string): RunEvent | null {
  if (line.length > MAX_EVENT_LINE) return null;
  const text = line.trim();
  if (!text.startsWith('{') || !text.endsWith('}')) return null;
  let event: unknown;
  try {
    event = readStorable(text).value;
  } catch (error) {
    const isTooLong = error instanceof JsonRefused && error.reason === 'number';
    // All other lines are ordinary output that resembles JSON.
    return isTooLong ? droppedEvent(text, text, `it has a ${error.message}`) : null;
  }
  if (!isJsonObject(event)) return null;
  const type = own(event, 'type');
  const msg = own(event, 'msg');
  const payload = own(event, 'payload');
  if (typeof type !== 'string' || !EVENT_TYPE.test(type) || RESERVED.has(type)) return null;
  if (typeof msg !== 'string' && !Number.isSafeInteger(msg)) return null;
  if (type === 'PROGRESS' && !isPercentage(msg)) return null;
  if (typeof msg !== 'string' && typeof msg !== 'number') return null;
  if (payload === undefined) return { type, msg };
  return isJsonObject(payload) ? { type, msg, payload } : null;
}

/**
 * What is told of an event that is dropped because its line is longer than {@link MAX_EVENT_LINE}.
 * @param begin of the line, and its `end`
 * @returns null when the outermost members that can be told do not look like an event
 */
export function tooLongEvent(begin: string, end: string): RunEvent | null {
  if (!begin.trimStart().startsWith('{') || !end.trimEnd().endsWith('}')) return null;
  return droppedEvent(begin, end, `its line is longer than ${MAX_EVENT_LINE} characters`);
}

function droppedEvent(begin: string, end: string, why: string): RunEvent | null {
  const members = `${outermostStrings(begin)}\n${afterBrackets(end)}`;
  const [, type] = TYPE_KEY.exec(members) ?? [];
  if (type === undefined || RESERVED.has(type) || !MSG_KEY.test(members)) return null;
  return { type: EVENTS_DROPPED, msg: `An event of the type ${type} is dropped: ${why}` };
}

/** The begin of a JSON text without the strings of nested objects and lists. */
function outermostStrings(begin: string): string {
  let depth = 0;
  return begin.replace(STRING_OR_BRACKET, (token) => {
    if (token === '{' || token === '[') depth += 1;
    else if (token === '}' || token === ']') depth -= 1;
    return depth > 1 ? '' : token;
  });
}

/** The end of an object after all nested objects and lists. */
function afterBrackets(end: string): string {
  const members = end.trimEnd().slice(0, -1);
  return members.slice(Math.max(members.lastIndexOf('}'), members.lastIndexOf(']')) + 1);
}

/** The event without values of secrets, which escapes may have hidden in its line; null: nothing is left of it. */
export async function maskedEvent(event: RunEvent | null, mask: SecretMask): Promise<RunEvent | null> {
  if (event === null) return null;
  const { type, msg, payload } = event;
  if (mask.text(type) !== type) return null;
  const shown = typeof msg === 'string' ? mask.text(msg) : msg;
  if (payload === undefined) return { type, msg: shown };
  return { type, msg: shown, payload: await mask.json(payload) };
}

/** The value of an own key; null counts as absent. */
function own(object: JsonObject, key: string): JsonObject[string] | undefined {
  return Object.hasOwn(object, key) ? (object[key] ?? undefined) : undefined;
}

function isPercentage(value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 100;
}

/** A line whose last part has arrived. */
export interface JoinedLine {
  /** As it was printed, in its last state. All of it, or its begin: {@link MAX_EVENT_LINE} units at least. */
  readonly plain: string;
  /** The last part of the printed line. */
  readonly end: string;
  /** Whether the line is longer than an event may be. */
  readonly isTooLong: boolean;
}

/** Joins the parts of the lines of one stream, in bounded memory. */
export class LineJoiner {
  private plain = '';
  private length = 0;

  /** @returns null until the line ends */
  add({ text, plain = text, part }: MaskedLine): JoinedLine | null {
    // As most lines are.
    if (part === undefined && !plain.includes('\r'))
      return { plain, end: plain, isTooLong: plain.length > MAX_EVENT_LINE };
    const state = lastState(plain, true);
    if (writesOver(state)) this.plain = '';
    if (this.plain === '') this.length = 0;
    if (this.length <= MAX_EVENT_LINE) this.plain += state;
    this.length += state.length;
    if (part === 'start' || part === 'rest') return null;
    // A program that has removed its progress bar may have left sequences that do so.
    const shown = this.plain.includes('\r') ? shownLine(this.plain) : this.plain;
    const line = { plain: shown, end: state, isTooLong: this.length > MAX_EVENT_LINE };
    this.plain = '';
    return line;
  }
}
