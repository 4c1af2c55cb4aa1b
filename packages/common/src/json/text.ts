/**
 * A text of one line that people will see: no control characters, no separators of lines, none that change the direction of text. The API description shows
 * this pattern: many validators compile it without the `u` flag, so it has no `\p{...}`.
 */
export const NO_CONTROL_CHARACTERS =
  // oxlint-disable-next-line no-control-regex -- the pattern excludes control characters
  /^[^\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]*$/;

/** The same for a text of several lines, which may have tabs. */
export const NO_CONTROLS_BUT_LINES =
  // oxlint-disable-next-line no-control-regex -- the pattern excludes control characters
  /^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]*$/;

/**
 * Characters that could control a terminal, look like the end of a line or change the direction of text, as a part of a class of a
 * regular expression: control characters except tab and line feed, line and paragraph separators, bidirectional marks.
 */
export const UNSAFE_CHARACTERS = String.raw`\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069`;

const UNSAFE = new RegExp(`[${UNSAFE_CHARACTERS}]`, 'g');

/** Writes unsafe characters as JSON escapes (`\u009b`); a JSON text keeps its meaning. */
export function escapeUnsafe(text: string): string {
  return text.replaceAll(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Whether PostgreSQL can store a text: no NUL character, no lone surrogate. */
export function isCleanText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

/** Whether the number of code points lies between the inclusive bounds. */
export function lengthWithin(text: string, min: number, max: number): boolean {
  const units = text.length;
  // A code point has one or two units, so most texts need no counting.
  if (units < min || units > 2 * max) return false;
  if (units <= max && units >= 2 * min) return true;
  let points = 0;
  for (const _ of text) points += 1;
  return points >= min && points <= max;
}

/** Shortens a text for a message to `max` UTF-16 units, without splitting a character. */
export function clip(text: string, max: number): string {
  if (text.length <= max) return text.toWellFormed();
  return `${text
    .slice(0, max)
    .replace(/[\uD800-\uDBFF]$/, '')
    .toWellFormed()}...`;
}
