import { isUtf8 } from 'node:buffer';
import { endOfString, isPrintedAs, keyIndex } from './exact-parser.js';
import { pointerAt } from './json-path.js';
import { readExactly } from './json-text.js';
import { syntaxErrorAt } from './syntax-error.js';
import { isCleanText } from './text.js';

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

/** Characters of a number. Other readers have such a limit: Python refuses integers of more than 4,300 digits. */
const MAX_NUMBER_LENGTH = 1000;

/**
 * Parses a JSON text and rejects what could not be stored or returned unchanged: invalid UTF-8 (and byte order marks), deep
 * nesting, duplicate keys, strings with NUL characters or lone surrogates, and numbers of more than 1,000 characters. Keys such as `__proto__` become own properties.
 * Objects and lists keep all other numbers, whatever their size and precision, and the order of keys: `stringifyJson` prints them exactly.
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
    throw new JsonRefused('syntax', `syntax error at character ${syntaxErrorAt(text) + 1}`);
  }
}

/** The first problem of a JSON text. */
interface JsonProblem {
  readonly reason: 'depth' | 'duplicate-key' | 'number' | 'text';
  readonly message: string;
  /** Offset into the text, in UTF-16 units. */
  readonly at: number;
}

interface JsonScan {
  readonly problem: JsonProblem | undefined;
  /** Whether JSON.stringify prints the parsed text with the same numbers and the same order of keys. */
  readonly isPrinted: boolean;
}

const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const LOWER_E = 0x65;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const TO_LOWER_CASE = 0x20;

// Shorter integers need no check: 15 digits fit into a double.
const EXACT_LENGTH = 15;

/**
 * Finds what JSON.parse accepts and we do not: nesting beyond `maxDepth`, duplicate keys, escaped NUL characters and lone
 * surrogates (unescaped ones fail before), and whether parsing and printing changes numbers or the order of keys. Linear
 * in the length of the text.
 */
function scanJson(text: string, maxDepth: number): JsonScan {
  return new Scan(text, maxDepth).run();
}

class Scan {
  private at = 0;
  /** Position of the next backslash, at or after `at`. */
  private backslash: number;
  private depth = 0;
  /** By level: whether it is an object, and its keys. Reused by later containers. */
  private readonly isObject: boolean[] = [];
  private readonly keys: KeySet[] = [];
  /** By level: the index of the last key of the object, -1 before the first. */
  private readonly lastIndex: number[] = [];
  private keyComes = false;
  private isPrinted = true;

  constructor(
    private readonly text: string,
    private readonly maxDepth: number,
  ) {
    this.backslash = this.findBackslash(0);
  }

  run(): JsonScan {
    return { problem: this.findProblem(), isPrinted: this.isPrinted };
  }

  private findProblem(): JsonProblem | undefined {
    const { text } = this;
    const { length } = text;
    while (this.at < length) {
      const code = text.charCodeAt(this.at);
      let problem: JsonProblem | undefined;
      if (code === QUOTE) problem = this.readString();
      else if (code === MINUS || (code >= ZERO && code <= NINE)) problem = this.readNumber();
      else if (code === OPEN_OBJECT || code === OPEN_LIST) problem = this.open(code === OPEN_OBJECT);
      else this.step(code);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }

  private step(code: number): void {
    if (code === CLOSE_OBJECT || code === CLOSE_LIST) {
      this.depth -= 1;
      this.keyComes = false;
    } else if (code === COMMA) {
      this.keyComes = this.isObject[this.depth - 1] === true;
    }
    this.at += 1;
  }

  private open(isObject: boolean): JsonProblem | undefined {
    const { depth } = this;
    if (depth === this.maxDepth) {
      return { reason: 'depth', message: `more than ${this.maxDepth} levels`, at: this.at };
    }
    this.isObject[depth] = isObject;
    if (isObject) {
      (this.keys[depth] ??= new KeySet()).clear();
      this.lastIndex[depth] = -1;
    }
    this.keyComes = isObject;
    this.depth = depth + 1;
    this.at += 1;
    return undefined;
  }

  private readString(): JsonProblem | undefined {
    const { text, keyComes, at: start } = this;
    const end = endOfString(text, start);
    this.at = end;
    this.keyComes = false;
    const escaped = this.backslash < end;
    if (escaped) this.backslash = this.findBackslash(end);
    if (!escaped && !keyComes) return undefined;
    const content = escaped ? decode(text.slice(start, end)) : text.slice(start + 1, end - 1);
    if (escaped && !isCleanText(content)) {
      return { reason: 'text', message: 'NUL character or lone surrogate in the string', at: start };
    }
    if (!keyComes) return undefined;
    if (this.keys[this.depth - 1]?.add(content) === false) {
      return { reason: 'duplicate-key', message: 'duplicate key', at: start };
    }
    this.noteKey(content);
    return undefined;
  }

  private noteKey(key: string): void {
    const level = this.depth - 1;
    const index = keyIndex(key);
    if (index < (this.lastIndex[level] ?? -1)) this.isPrinted = false;
    this.lastIndex[level] = index;
  }

  private readNumber(): JsonProblem | undefined {
    const { text, at: start } = this;
    let end = start + 1;
    let isInteger = true;
    for (; ; end += 1) {
      const code = text.charCodeAt(end);
      if (code === DOT || (code | TO_LOWER_CASE) === LOWER_E) isInteger = false;
      else if (!isNumberPart(code)) break;
    }
    this.at = end;
    if (end - start > MAX_NUMBER_LENGTH) {
      const pointer = pointerAt(text, start);
      const place = pointer === '' ? '' : ` in ${pointer}`;
      return { reason: 'number', message: `number of more than 1,000 characters${place}`, at: start };
    }
    if (!this.isPrinted) return undefined;
    const literal = text.slice(start, end);
    if (isInteger && literal.length <= EXACT_LENGTH && literal !== '-0') return undefined;
    this.isPrinted = isPrintedAs(literal);
    return undefined;
  }

  private findBackslash(from: number): number {
    const found = this.text.indexOf('\\', from);
    return found < 0 ? Infinity : found;
  }
}

function isNumberPart(code: number): boolean {
  return (code >= ZERO && code <= NINE) || code === DOT || code === MINUS || code === PLUS;
}

function decode(literal: string): string {
  return String(JSON.parse(literal));
}

/** Up to this many keys a linear search is faster than a hash set. */
const FEW_KEYS = 8;

/** The keys of one object. Reusable. */
class KeySet {
  private readonly few: string[] = [];
  private many: Set<string> | undefined;

  /** @returns false when the key is known */
  add(key: string): boolean {
    if (this.many !== undefined) {
      const before = this.many.size;
      return this.many.add(key).size > before;
    }
    for (const seen of this.few) if (seen === key) return false;
    this.few.push(key);
    if (this.few.length === FEW_KEYS) this.many = new Set(this.few);
    return true;
  }

  clear(): void {
    this.few.length = 0;
    this.many = undefined;
  }
}
