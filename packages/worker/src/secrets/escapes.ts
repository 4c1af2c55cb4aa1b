import { hasUnshown } from '@longshore/common/shown-text';
import { UnitBuffer } from './unit-buffer.js';

const BACKSLASH = 0x5c;
const QUOTE = 0x27;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;
const BACKSPACE = 0x08;

/** A longer escape sequence is no longer waited for where a piece of a text cuts it, in UTF-16 units. */
const MAX_SEQUENCE = 64;

/** How shells write a single quote inside of single quotes. */
const SHELL_QUOTES = [`'\\''`, `'"'"'`] as const;

/** What an ASCII character after a backslash stands for; any other character stands for itself. */
const AFTER_BACKSLASH = Uint8Array.from({ length: 128 }, (_, unit) => unit);
for (const [letter, control] of Object.entries({ n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v' }))
  AFTER_BACKSLASH[letter.charCodeAt(0)] = control.charCodeAt(0);

/** 1: a terminal may act on the unit. */
const CONTROL = Uint8Array.from({ length: 0xa0 }, (_, unit) => Number(hasUnshown(String.fromCharCode(unit))));

const LOWER_U = 0x75;
const LOWER_X = 0x78;

/** An escape: 8 times the unit that it stands for, plus its length. 0: there is none; -1: the end of the text may cut it. */
type Escape = number;

const CUT: Escape = -1;

/** Whether a text may have escapes, or end within one, or has what a terminal does not show. */
export function mayHaveEscapes(text: string): boolean {
  return text.includes('\\') || text.includes(`'"`) || text.endsWith("'") || hasUnshown(text);
}

/** A text without its escapes. */
interface Unescaped {
  /** Valid until the next call. */
  readonly units: Uint16Array;
  /** Offset of each unit, and of the end, in the text with escapes. Of a text that has ended, valid until the next call. */
  readonly offsets: Int32Array;
  /** Number of units. */
  readonly to: number;
  /** Whether it may have escapes again. */
  readonly hasEscapes: boolean;
  /** Whether it has line breaks. */
  readonly hasBreaks: boolean;
  /** Units of the text with escapes that were read. Those that follow may be a part of an escape. */
  readonly read: number;
}

const unescaped = new UnitBuffer();
let offsetsOfEnded = new Int32Array(0);

/**
 * Replaces the escapes of JSON, of programming languages that write strings like C, and of shells, and leaves out what a terminal
 * does not show.
 * @param from where the text begins
 * @param end where it ends
 * @param isEnd whether no more comes: an escape that is cut is none
 * @param unshown begin and end of each part that is left out; the unit after it begins with it
 */
export function unescape(
  text: Uint16Array,
  from: number,
  end: number,
  isEnd: boolean,
  unshown: readonly number[] = [],
): Unescaped {
  const units = unescaped.ofLength(end - from);
  if (isEnd && offsetsOfEnded.length <= end - from) offsetsOfEnded = new Int32Array(2 * (end - from) + 1);
  const offsets = isEnd ? offsetsOfEnded : new Int32Array(end - from + 1);
  let hasBreaks = false;
  let hasEscapes = false;
  let to = 0;
  let at = from;
  let begin = from;
  for (let part = 0; at < end;) {
    while (Number(unshown[part + 1]) <= at) part += 2;
    if (at >= Number(unshown[part])) {
      const partEnd = Number(unshown[part + 1]);
      if (partEnd === end && !isEnd && end - at < MAX_SEQUENCE) break;
      at = partEnd;
      continue;
    }
    const unit = Number(text[at]);
    if (unit === BACKSPACE) {
      at += 1;
      if (to > 0) begin = Number(offsets[(to = before(units, to))]);
      continue;
    }
    let meant = unit;
    offsets[to] = begin;
    if (unit !== BACKSLASH && unit !== QUOTE) at += 1;
    else {
      if (unit === BACKSLASH && isSimple(text, end, at + 1)) {
        meant = meaningOf(Number(text[at + 1]));
        at += 2;
      } else {
        const escape = unit === BACKSLASH ? digits(text, end, at + 1) : shellQuote(text, end, at);
        if (escape === CUT && !isEnd) break;
        if (escape > 0) meant = escape >> 3;
        at += escape > 0 ? escape & 7 : 1;
      }
      if (meant === BACKSLASH || meant === QUOTE || CONTROL[meant] === 1) hasEscapes = true;
    }
    units[to] = meant;
    to += 1;
    begin = at;
    if (meant === LINE_FEED || meant === CARRIAGE_RETURN) hasBreaks = true;
  }
  offsets[to] = begin;
  return { units, offsets, to, hasEscapes, hasBreaks, read: at };
}

/** Index of the character before `to`. */
function before(units: Uint16Array, to: number): number {
  return to > 1 && (Number(units[to - 1]) & 0xfc00) === 0xdc00 ? to - 2 : to - 1;
}

function shellQuote(text: Uint16Array, length: number, at: number): Escape {
  for (const quote of SHELL_QUOTES) {
    let equal = 1;
    while (equal < quote.length && at + equal < length && text[at + equal] === quote.charCodeAt(equal))
      equal += 1;
    if (equal === quote.length) return QUOTE * 8 + equal;
    if (at + equal === length) return CUT;
  }
  return 0;
}

/** Whether an escape is its backslash and the unit at `at`. */
function isSimple(text: Uint16Array, length: number, at: number): boolean {
  return at < length && text[at] !== LOWER_U && text[at] !== LOWER_X;
}

/** An escape whose letter is at `letter`, before hex digits. */
function digits(text: Uint16Array, length: number, letter: number): Escape {
  if (letter === length) return CUT;
  const count = text[letter] === LOWER_U ? 4 : 2;
  let unit = 0;
  for (let at = letter + 1; at <= letter + count; at++) {
    if (at === length) return CUT;
    const digit = hexDigit(Number(text[at]));
    if (digit < 0) return Number(text[letter]) * 8 + 2;
    unit = unit * 16 + digit;
  }
  return unit * 8 + count + 2;
}

function meaningOf(unit: number): number {
  return unit < AFTER_BACKSLASH.length ? Number(AFTER_BACKSLASH[unit]) : unit;
}

/** -1: it is none. */
function hexDigit(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30;
  const lower = unit | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : -1;
}
