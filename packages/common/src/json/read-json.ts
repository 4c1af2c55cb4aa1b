import { isUtf8 } from 'node:buffer';
import { scanJson } from './scan-json.js';

/** Why a JSON text was refused. */
export const JSON_REFUSALS = ['encoding', 'syntax', 'depth', 'duplicate-key', 'number', 'text'] as const;

export type JsonRefusal = (typeof JSON_REFUSALS)[number];

/** A JSON text that is not taken. The message is fit for whoever sent it and echoes nothing of the text. */
export class JsonRefused extends Error {
  constructor(
    readonly reason: JsonRefusal,
    message: string,
  ) {
    super(message);
    this.name = 'JsonRefused';
  }
}

/** Bounds of a JSON text. */
export interface JsonLimits {
  /** Deepest nesting of objects and lists; the outermost one is level 1. */
  readonly maxDepth?: number;
}

const MAX_DEPTH = 64;

/**
 * Reads a JSON text, refusing what would be stored or answered as something else than was sent: bytes
 * that are not UTF-8 (a byte order mark included), deep nesting, keys given twice, numbers that a double
 * cannot hold, and strings with NUL characters or lone surrogates. Keys such as `__proto__` become plain
 * own properties.
 * @throws JsonRefused
 */
export function readJson(bytes: Uint8Array, { maxDepth = MAX_DEPTH }: JsonLimits = {}): unknown {
  if (bytes.length === 0) throw new JsonRefused('syntax', 'empty text');
  if (!isUtf8(bytes)) throw new JsonRefused('encoding', 'not valid UTF-8');
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
  if (text.codePointAt(0) === 0xfeff) throw new JsonRefused('encoding', 'starts with a byte order mark');
  const value = parse(text);
  const problem = scanJson(text, maxDepth);
  if (problem !== undefined)
    throw new JsonRefused(problem.reason, `${problem.message} at character ${problem.at + 1}`);
  return value;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The engine's message quotes the text, so it is not passed on.
    throw new JsonRefused('syntax', 'syntax error');
  }
}
