import type { JsonValue } from './json-value.js';

/** An object or a list of a text, read by {@link parseExactly}. */
export interface ParsedContainer {
  readonly value: object;
  /** The text of each member, by its key or index, in the order of the text. */
  readonly members: ReadonlyMap<string, string>;
  readonly text: string;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const INDEX = /^(?:0|[1-9]\d{0,9})$/;

/**
 * Parses a valid JSON text without insignificant white space. Numbers become the nearest double that is finite and has
 * their sign; strings keep their value.
 * @param wrap represents each object or list that JSON.stringify would print with other numbers or another order of keys
 */
export function parseExactly(text: string, wrap: (container: ParsedContainer) => JsonValue): JsonValue {
  return new Parser(text, wrap).value();
}

/** Whether JSON.stringify prints the number of a literal as that literal. */
export function isPrintedAs(literal: string): boolean {
  return String(Number(literal)) === literal;
}

/** The offset after the closing quote of the JSON string that opens at `start`. */
export function endOfString(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1);
  while (isEscaped(text, quote)) quote = text.indexOf('"', quote + 1);
  return quote + 1;
}

/** A valid JSON text without insignificant white space. */
export function compactJson(text: string): string {
  let compact = '';
  let kept = 0;
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code > 0x20) at += 1;
    else {
      compact += text.slice(kept, at);
      while (text.charCodeAt(at) <= 0x20) at += 1;
      kept = at;
    }
  }
  return kept === 0 ? text : compact + text.slice(kept);
}

class Parser {
  private at = 0;
  /** Whether JSON.stringify prints the last value as its text. */
  private isPrinted = true;

  constructor(
    private readonly text: string,
    private readonly wrap: (container: ParsedContainer) => JsonValue,
  ) {}

  value(): JsonValue {
    const { text, at } = this;
    const code = text.charCodeAt(at);
    if (code === OPEN_OBJECT) return this.container({}, CLOSE_OBJECT);
    if (code === OPEN_LIST) return this.container([], CLOSE_LIST);
    if (code === QUOTE) {
      this.isPrinted = true;
      return this.string();
    }
    const literal = this.literal();
    if (code !== MINUS && !(code >= 0x30 && code <= 0x39)) {
      this.isPrinted = true;
      return JSON.parse(literal);
    }
    this.isPrinted = isPrintedAs(literal);
    return numberOf(literal);
  }

  private container(value: Record<string, JsonValue> | JsonValue[], close: number): JsonValue {
    const { text, at: start } = this;
    const members = new Map<string, string>();
    let isPrinted = true;
    let hasIndexes = false;
    this.at += 1;
    while (text.charCodeAt(this.at) !== close) {
      if (text.charCodeAt(this.at) === COMMA) this.at += 1;
      const key = Array.isArray(value) ? String(members.size) : this.string();
      if (text.charCodeAt(this.at) === COLON) this.at += 1;
      const from = this.at;
      const member = this.value();
      isPrinted &&= this.isPrinted;
      members.set(key, text.slice(from, this.at));
      if (Array.isArray(value)) value.push(member);
      else {
        // An assignment of `__proto__` would set the prototype.
        Object.defineProperty(value, key, {
          value: member,
          enumerable: true,
          configurable: true,
          writable: true,
        });
        hasIndexes ||= INDEX.test(key);
      }
    }
    this.at += 1;
    this.isPrinted = isPrinted && (!hasIndexes || hasOrder(value, members.keys()));
    return this.isPrinted ? value : this.wrap({ value, members, text: text.slice(start, this.at) });
  }

  private string(): string {
    const start = this.at;
    this.at = endOfString(this.text, start);
    const quoted = this.text.slice(start, this.at);
    return quoted.includes('\\') ? JSON.parse(quoted) : quoted.slice(1, -1);
  }

  /** A number, true, false or null. */
  private literal(): string {
    const start = this.at;
    let { at } = this;
    for (let code = this.text.charCodeAt(at); !isEnd(code); code = this.text.charCodeAt(at)) at += 1;
    this.at = at;
    return this.text.slice(start, at);
  }
}

/** Whether a literal ends before the character; its code is NaN at the end of the text. */
function isEnd(code: number): boolean {
  return code === COMMA || code === CLOSE_LIST || code === CLOSE_OBJECT || Number.isNaN(code);
}

function isEscaped(text: string, at: number): boolean {
  let before = at;
  while (text.charCodeAt(before - 1) === BACKSLASH) before -= 1;
  return (at - before) % 2 === 1;
}

/** Whether the keys are those of the object, in its order: integers come first in an object. */
function hasOrder(value: object, keys: Iterable<string>): boolean {
  const order = Object.keys(value);
  let at = 0;
  for (const key of keys) if (order[at++] !== key) return false;
  return true;
}

/** The nearest double that is finite and, unless the number is zero, not zero. */
function numberOf(literal: string): number {
  const value = Number(literal);
  if (value === 0) return /^[^eE]*[1-9]/.test(literal) ? Number.MIN_VALUE * signOf(literal) : value;
  return Number.isFinite(value) ? value : Number.MAX_VALUE * signOf(literal);
}

function signOf(literal: string): number {
  return literal.startsWith('-') ? -1 : 1;
}
