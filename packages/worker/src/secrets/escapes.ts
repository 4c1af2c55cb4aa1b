import { hasUnshown, unshownParts } from '@longshore/common/shown-text';

const BACKSLASH = 0x5c;
const QUOTE = 0x27;
const BACKSPACE = 0x08;

/** A longer escape sequence is no longer waited for where a piece of a text cuts it, in UTF-16 units. */
const MAX_SEQUENCE = 64;

/** How shells write a single quote inside of single quotes. */
const SHELL_QUOTES = [`'\\''`, `'"'"'`] as const;

/** What an ASCII character after a backslash stands for; any other character stands for itself. */
const AFTER_BACKSLASH = Uint8Array.from({ length: 128 }, (_, unit) => unit);
for (const [letter, control] of Object.entries({ n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v' }))
  AFTER_BACKSLASH[letter.charCodeAt(0)] = control.charCodeAt(0);

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
  readonly text: string;
  /** Offset of each unit, and of the end, in the text with escapes. */
  readonly offsets: Int32Array;
  /** Units of the text with escapes that were read. Those that follow may be a part of an escape. */
  readonly read: number;
}

/**
 * Replaces the escapes of JSON, of programming languages that write strings like C, and of shells, and leaves out what a terminal
 * does not show.
 * @param isEnd whether no more comes: an escape that is cut is none
 */
export function unescape(text: string, isEnd: boolean): Unescaped {
  const end = text.length;
  const unshown = hasUnshown(text) ? unshownParts(text) : [];
  const units = new Uint16Array(end);
  const offsets = new Int32Array(end + 1);
  let to = 0;
  let at = 0;
  let begin = 0;
  for (let part = 0; at < end;) {
    while (Number(unshown[part + 1]) <= at) part += 2;
    if (at >= Number(unshown[part])) {
      const partEnd = Number(unshown[part + 1]);
      if (partEnd === end && !isEnd && end - at < MAX_SEQUENCE) break;
      at = partEnd;
      continue;
    }
    let unit = text.charCodeAt(at);
    if (unit === BACKSPACE) {
      at += 1;
      if (to > 0) begin = Number(offsets[(to = before(units, to))]);
      continue;
    }
    offsets[to] = begin;
    const escape =
      unit === BACKSLASH ? afterBackslash(text, at + 1) : unit === QUOTE ? shellQuote(text, at) : 0;
    if (escape === CUT && !isEnd) break;
    if (escape > 0) unit = escape >> 3;
    at += escape > 0 ? escape & 7 : 1;
    units[to++] = unit;
    begin = at;
  }
  offsets[to] = begin;
  return { text: Buffer.from(units.buffer, 0, 2 * to).toString('utf16le'), offsets, read: at };
}

/** Index of the character before `to`. */
function before(units: Uint16Array, to: number): number {
  return to > 1 && (Number(units[to - 1]) & 0xfc00) === 0xdc00 ? to - 2 : to - 1;
}

function shellQuote(text: string, at: number): Escape {
  for (const quote of SHELL_QUOTES) {
    if (text.startsWith(quote, at)) return QUOTE * 8 + quote.length;
    if (quote.startsWith(text.slice(at, at + quote.length))) return CUT;
  }
  return 0;
}

/** An escape whose letter is at `letter`. */
function afterBackslash(text: string, letter: number): Escape {
  if (letter === text.length) return CUT;
  const first = text.charCodeAt(letter);
  if (first !== LOWER_U && first !== LOWER_X) return (AFTER_BACKSLASH[first] ?? first) * 8 + 2;
  const count = first === LOWER_U ? 4 : 2;
  let unit = 0;
  for (let at = letter + 1; at <= letter + count; at++) {
    if (at === text.length) return CUT;
    const digit = hexDigit(text.charCodeAt(at));
    if (digit < 0) return first * 8 + 2;
    unit = unit * 16 + digit;
  }
  return unit * 8 + count + 2;
}

/** -1: it is none. */
function hexDigit(unit: number): number {
  if (unit >= 0x30 && unit <= 0x39) return unit - 0x30;
  const lower = unit | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x61 + 10 : -1;
}
