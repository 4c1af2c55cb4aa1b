import type { JsonValue } from './json-value.js';

/** A member of an object or an item of a list. */
export interface JsonMember {
  /** The key, or the index as text. */
  readonly key: string;
  readonly text: string;
  /** Undefined: a number, a string, true, false or null. */
  readonly part: JsonPart | undefined;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const LARGEST_INDEX = 2 ** 32 - 2;

/** The objects and lists of a text, numbered in the order in which they open. */
interface Outline {
  readonly text: string;
  /** The offset after each; negative if JSON.stringify prints it as its text. */
  readonly ends: Int32Array;
  /** The number of the first that opens after the end of each. */
  readonly next: Int32Array;
}

/** An object or a list of a JSON text. Only its own members are parsed; what they contain stays text. */
export class JsonPart {
  private constructor(
    private readonly outline: Outline,
    private readonly number: number,
    private readonly start: number,
  ) {}

  /** @param text of an object or a list: valid JSON without insignificant white space */
  static of(text: string): JsonPart {
    return new JsonPart(outlineOf(text), 0, 0);
  }

  get isList(): boolean {
    return this.outline.text.charCodeAt(this.start) === OPEN_LIST;
  }

  /** Whether JSON.stringify prints the parsed value with the same numbers and the same order of keys. */
  get isPrinted(): boolean {
    return Number(this.outline.ends[this.number]) < 0;
  }

  get text(): string {
    return this.outline.text.slice(this.start, this.#end);
  }

  get #end(): number {
    return Math.abs(Number(this.outline.ends[this.number]));
  }

  /** In the order of the text. */
  members(): JsonMember[] {
    const members: JsonMember[] = [];
    const { outline, isList } = this;
    const { text, next } = outline;
    const last = this.#end - 1;
    let number = this.number + 1;
    let at = this.start + 1;
    for (let count = 0; at < last; count += 1) {
      let key = String(count);
      if (!isList) {
        const end = endOfString(text, at);
        key = JSON.parse(text.slice(at, end));
        at = end + 1;
      }
      const code = text.charCodeAt(at);
      let part: JsonPart | undefined;
      let end: number;
      if (code === OPEN_OBJECT || code === OPEN_LIST) {
        part = new JsonPart(outline, number, at);
        end = part.#end;
        number = Number(next[number]);
      } else {
        end = code === QUOTE ? endOfString(text, at) : endOfLiteral(text, at);
      }
      members.push({ key, text: text.slice(at, end), part });
      at = end + 1;
    }
    return members;
  }

  /** The object or list. @param wrap represents each object and list in it that JSON.stringify would print differently */
  parse(wrap: (part: JsonPart) => JsonValue): Record<string, JsonValue> | JsonValue[] {
    const list: JsonValue[] = [];
    const object: Record<string, JsonValue> = {};
    for (const { key, text, part } of this.members()) {
      const value = part === undefined || part.isPrinted ? parseScalar(text) : wrap(part);
      if (this.isList) list.push(value);
      // An assignment of `__proto__` would set the prototype.
      else
        Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
    }
    return this.isList ? list : object;
  }
}

/** As JSON.parse, except that a number becomes the nearest double that is finite and, unless it is zero, not zero. */
export function parseScalar(text: string): JsonValue {
  const value: JsonValue = JSON.parse(text);
  if (typeof value !== 'number') return value;
  const sign = text.startsWith('-') ? -1 : 1;
  if (value === 0) return /^[^eE]*[1-9]/.test(text) ? Number.MIN_VALUE * sign : value;
  return Number.isFinite(value) ? value : Number.MAX_VALUE * sign;
}

/** Whether JSON.stringify prints the number of a literal as that literal. */
export function isPrintedAs(literal: string): boolean {
  return String(Number(literal)) === literal;
}

/** The place of a key among those that JavaScript puts first, in ascending order; Infinity for all other keys. */
export function keyIndex(key: string): number {
  const code = key.charCodeAt(0);
  const isDigit = code >= ZERO && code <= NINE;
  const index = isDigit && isPrintedAs(key) ? Number(key) : Infinity;
  return index <= LARGEST_INDEX ? index : Infinity;
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

function outlineOf(text: string): Outline {
  const ends: number[] = [];
  const next: number[] = [];
  /** Those that are open: the number, whether it is printed as its text so far, and the index of its last key. */
  const open: { number: number; isPrinted: boolean; lastIndex: number }[] = [];
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at);
    const inner = open.at(-1);
    if (code === OPEN_OBJECT || code === OPEN_LIST) {
      open.push({ number: ends.length, isPrinted: true, lastIndex: -1 });
      ends.push(0);
      next.push(0);
      at += 1;
    } else if (code === QUOTE) {
      const end = endOfString(text, at);
      if (inner?.isPrinted === true && text.charCodeAt(end) === COLON) {
        const index = keyIndex(JSON.parse(text.slice(at, end)));
        inner.isPrinted = index >= inner.lastIndex;
        inner.lastIndex = index;
      }
      at = end;
    } else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      const end = endOfLiteral(text, at);
      if (inner?.isPrinted === true) inner.isPrinted = isPrintedAs(text.slice(at, end));
      at = end;
    } else {
      at += 1;
      if (inner === undefined || (code !== CLOSE_OBJECT && code !== CLOSE_LIST)) continue;
      open.pop();
      ends[inner.number] = inner.isPrinted ? -at : at;
      next[inner.number] = ends.length;
      const outer = open.at(-1);
      if (outer !== undefined) outer.isPrinted &&= inner.isPrinted;
    }
  }
  return { text, ends: Int32Array.from(ends), next: Int32Array.from(next) };
}

/** The offset after a number, true, false or null. */
function endOfLiteral(text: string, start: number): number {
  let at = start;
  for (let code = text.charCodeAt(at); !isEnd(code); code = text.charCodeAt(at)) at += 1;
  return at;
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
