const BACKSLASH = 0x5c;
const QUOTE = 0x27;

/** How shells write a single quote inside of single quotes. */
const SHELL_QUOTES = [`'\\''`, `'"'"'`] as const;

/** What a letter after a backslash stands for; any other character stands for itself. */
const CONTROLS: ReadonlyMap<number, number> = new Map(
  Object.entries({ n: '\n', r: '\r', t: '\t', b: '\b', f: '\f', v: '\v' }).map(([letter, control]) => [
    letter.charCodeAt(0),
    control.charCodeAt(0),
  ]),
);

/** Number of hex digits after `\u` and `\x`. */
const DIGITS: ReadonlyMap<number, number> = new Map([
  [0x75, 4],
  [0x78, 2],
]);

const HEX = /^[0-9a-f]+$/i;

/** An escape: 8 times the unit that it stands for, plus its length. 0: there is none; -1: the end of the text may cut it. */
type Escape = number;

const CUT: Escape = -1;

/** Whether a text may have escapes, or end within one. */
export function mayHaveEscapes(text: string): boolean {
  return text.includes('\\') || text.includes(`'"`) || text.endsWith("'");
}

/** A text without its escapes. */
interface Unescaped {
  readonly text: string;
  /** Offset of each unit, and of the end, in the text with escapes. */
  readonly offsets: Int32Array;
  /** The end of the text, which may be a part of an escape. */
  readonly rest: string;
}

/**
 * Replaces the escapes of JSON, of programming languages that write strings like C, and of shells.
 * @param isEnd whether no more comes: an escape that is cut is none
 */
export function unescape(text: string, isEnd: boolean): Unescaped {
  const units = new Uint16Array(text.length);
  const offsets = new Int32Array(text.length + 1);
  let count = 0;
  let at = 0;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    const escape = unit === BACKSLASH || unit === QUOTE ? escapeAt(text, at) : 0;
    if (escape === CUT && !isEnd) break;
    offsets[count] = at;
    units[count] = escape > 0 ? escape >> 3 : unit;
    at += escape > 0 ? escape & 7 : 1;
    count += 1;
  }
  offsets[count] = at;
  const plain = Buffer.from(units.buffer, 0, 2 * count).toString('utf16le');
  return { text: plain, offsets, rest: text.slice(at) };
}

function escapeAt(text: string, at: number): Escape {
  const unit = text.charCodeAt(at);
  if (unit === BACKSLASH) return afterBackslash(text, at + 1);
  if (unit !== QUOTE) return 0;
  for (const quote of SHELL_QUOTES) {
    if (text.startsWith(quote, at)) return QUOTE * 8 + quote.length;
    if (text.length < at + quote.length && quote.startsWith(text.slice(at))) return CUT;
  }
  return 0;
}

function afterBackslash(text: string, at: number): Escape {
  if (at >= text.length) return CUT;
  const unit = text.charCodeAt(at);
  const digits = DIGITS.get(unit);
  if (digits !== undefined) {
    const hex = text.slice(at + 1, at + 1 + digits);
    const isHex = HEX.test(hex);
    if (hex.length < digits && (hex === '' || isHex)) return CUT;
    if (isHex) return Number.parseInt(hex, 16) * 8 + digits + 2;
  }
  return (CONTROLS.get(unit) ?? unit) * 8 + 2;
}
