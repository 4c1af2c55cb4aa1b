import { isCleanText } from './text.js';

/** The first problem of a JSON text. */
export interface JsonProblem {
  readonly reason: 'depth' | 'duplicate-key' | 'number' | 'text';
  readonly message: string;
  /** Offset into the text, in UTF-16 units. */
  readonly at: number;
}

const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const LOWER_E = 0x65;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const TO_LOWER_CASE = 0x20;

// Shorter literals without an exponent need no check: 15 digits fit into a double.
const EXACT_LENGTH = 15;

/**
 * Finds what JSON.parse accepts and we do not: nesting beyond `maxDepth`, duplicate keys, numbers that a double cannot
 * hold, escaped NUL characters and lone surrogates (unescaped ones fail before). Linear in the length of the text.
 */
export function scanJson(text: string, maxDepth: number): JsonProblem | undefined {
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
  private keyComes = false;

  constructor(
    private readonly text: string,
    private readonly maxDepth: number,
  ) {
    this.backslash = this.findBackslash(0);
  }

  run(): JsonProblem | undefined {
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
    if (isObject) (this.keys[depth] ??= new KeySet()).clear();
    this.keyComes = isObject;
    this.depth = depth + 1;
    this.at += 1;
    return undefined;
  }

  private readString(): JsonProblem | undefined {
    const { text, keyComes, at: start } = this;
    const end = this.endOfString(start);
    this.at = end;
    this.keyComes = false;
    const escaped = this.backslash < end;
    if (escaped) this.backslash = this.findBackslash(end);
    if (!escaped && !keyComes) return undefined;
    const content = escaped ? decode(text.slice(start, end)) : text.slice(start + 1, end - 1);
    if (escaped && !isCleanText(content)) {
      return { reason: 'text', message: 'NUL character or lone surrogate in the string', at: start };
    }
    if (keyComes && this.keys[this.depth - 1]?.add(content) === false) {
      return { reason: 'duplicate-key', message: 'duplicate key', at: start };
    }
    return undefined;
  }

  private readNumber(): JsonProblem | undefined {
    const { text, at: start } = this;
    let end = start + 1;
    let hasExponent = false;
    for (; ; end += 1) {
      const code = text.charCodeAt(end);
      if ((code | TO_LOWER_CASE) === LOWER_E) hasExponent = true;
      else if (!isNumberPart(code)) break;
    }
    this.at = end;
    if (end - start <= EXACT_LENGTH && !hasExponent) return undefined;
    return isKept(text.slice(start, end))
      ? undefined
      : { reason: 'number', message: 'number out of range', at: start };
  }

  /** The offset after the closing quote of the string that opens at `start`. */
  private endOfString(start: number): number {
    let quote = this.text.indexOf('"', start + 1);
    while (this.isEscaped(quote)) quote = this.text.indexOf('"', quote + 1);
    return quote + 1;
  }

  private isEscaped(at: number): boolean {
    let before = at;
    while (this.text.charCodeAt(before - 1) === BACKSLASH) before -= 1;
    return (at - before) % 2 === 1;
  }

  private findBackslash(from: number): number {
    const found = this.text.indexOf('\\', from);
    return found < 0 ? Infinity : found;
  }
}

function isNumberPart(code: number): boolean {
  return (code >= ZERO && code <= NINE) || code === DOT || code === MINUS || code === PLUS;
}

/** Whether a double holds the number: no unsafe integer, no overflow or underflow. */
function isKept(literal: string): boolean {
  const value = Number(literal);
  if (value === 0) return !/^[^eE]*[1-9]/.test(literal);
  return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
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
