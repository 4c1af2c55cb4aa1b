import { isUtf8 } from 'node:buffer';
import { readExactly } from './json-text.js';
import { scanJson } from './scan-json.js';

export type JsonRefusal = 'encoding' | 'syntax' | 'depth' | 'duplicate-key' | 'number' | 'text';

/** The message does not quote the text, so it may be sent to the client. */
export class JsonRefused extends Error {
  constructor(
    readonly reason: JsonRefusal,
    message: string,
  ) {
    super(message);
    this.name = 'JsonRefused';
  }
}

/** The outermost object or list is level 1. */
const MAX_DEPTH = 64;

/**
 * Parses a JSON text and rejects what could not be stored or returned unchanged: invalid UTF-8 (and byte order marks), deep
 * nesting, duplicate keys, strings with NUL characters or lone surrogates. Keys such as `__proto__` become own properties.
 * Objects and lists keep numbers of any size and precision and the order of keys: `stringifyJson` prints them exactly.
 * A member reads as the nearest double. A number that is the whole text must be one that a double holds.
 * @throws JsonRefused
 */
export function readJson(bytes: Uint8Array, maxDepth = MAX_DEPTH): unknown {
  if (bytes.length === 0) throw new JsonRefused('syntax', 'empty text');
  if (!isUtf8(bytes)) throw new JsonRefused('encoding', 'not valid UTF-8');
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  if (text.codePointAt(0) === 0xfeff) throw new JsonRefused('encoding', 'starts with a byte order mark');
  const value = parse(text);
  const { problem, isPrinted } = scanJson(text, maxDepth);
  if (problem !== undefined)
    throw new JsonRefused(problem.reason, `${problem.message} at character ${problem.at + 1}`);
  if (isPrinted) return value;
  const exact = readExactly(text);
  if (typeof exact === 'number' && !isKept(exact)) throw new JsonRefused('number', 'number out of range');
  return exact;
}

/** Whether the double is that of a literal that a double holds: no unsafe integer, no overflow or underflow. */
export function isKept(value: number): boolean {
  return Number.isInteger(value) ? Number.isSafeInteger(value) : Math.abs(value) > Number.MIN_VALUE;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The engine's message quotes the text.
    throw new JsonRefused('syntax', 'syntax error');
  }
}
