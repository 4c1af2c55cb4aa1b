import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { readJson } from '@longshore/common/json/read-json';
import type { RunEvent } from '../service-api/service-api.js';

/** Longest log line that is looked at for an event, in UTF-16 units. */
export const MAX_EVENT_LINE = 64 * 1024;

const EVENT_TYPE = /^[A-Z][A-Z0-9_]{0,63}$/;

/** What only the worker or the service may say about a run: a container cannot end itself through its log. */
const RESERVED: ReadonlySet<string> = new Set([
  'STARTED',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'RETRIED',
  'RECLAIMED',
]);

/**
 * Reads the event that a log line speaks, if it does: a JSON object with `type`, `msg` (text or integer) and, if it
 * likes, a `payload` object; other keys are ignored. PROGRESS needs an integer from 0 to 100.
 * @returns null for every other line
 */
export function parseLogEvent(line: string): RunEvent | null {
  if (line.length > MAX_EVENT_LINE) return null;
  const text = line.trim();
  if (!text.startsWith('{') || !text.endsWith('}')) return null;
  const said = readObject(text);
  if (said === null) return null;
  const type = own(said, 'type');
  const msg = own(said, 'msg');
  const payload = own(said, 'payload');
  if (typeof type !== 'string' || !EVENT_TYPE.test(type) || RESERVED.has(type)) return null;
  if (typeof msg !== 'string' && !Number.isSafeInteger(msg)) return null;
  if (type === 'PROGRESS' && !isPercentage(msg)) return null;
  if (typeof msg !== 'string' && typeof msg !== 'number') return null;
  if (payload === undefined) return { type, msg };
  return isJsonObject(payload) ? { type, msg, payload } : null;
}

function readObject(text: string): JsonObject | null {
  try {
    const value = readJson(Buffer.from(text));
    return isJsonObject(value) ? value : null;
  } catch {
    // Most lines that look like JSON objects are some other program's log: no event, and no reason to say so.
    return null;
  }
}

/** The object's own value of the key; null counts as absent. */
function own(object: JsonObject, key: string): JsonObject[string] | undefined {
  return Object.hasOwn(object, key) ? (object[key] ?? undefined) : undefined;
}

function isPercentage(value: unknown): boolean {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 100;
}
