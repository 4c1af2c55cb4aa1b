/** The API description shows this pattern: many validators compile it without the `u` flag, so it has no `\p{...}`. */
// oxlint-disable-next-line no-control-regex -- the pattern excludes control characters
export const NO_CONTROL_CHARACTERS = /^[^\x00-\x1f\x7f-\x9f]*$/;

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
