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
export type Escape = number;

export const CUT: Escape = -1;

/** Whether a text may have escapes, or end within one. */
export function mayHaveEscapes(text: string): boolean {
  return text.includes('\\') || text.includes(`'"`) || text.endsWith("'");
}

/** The escape of JSON, of the programming languages that write strings like C, or of shells that begins there. */
export function escapeAt(text: string, at: number): Escape {
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
