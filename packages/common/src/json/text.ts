/**
 * Text without control characters. Patterns that the API description shows use no `\p{...}`: many validators compile
 * them without the `u` flag.
 */
// oxlint-disable-next-line no-control-regex -- the pattern excludes control characters
export const NO_CONTROL_CHARACTERS = /^[^\x00-\x1f\x7f-\x9f]*$/;

/** Whether a text holds no NUL character and no lone surrogate, so that PostgreSQL can store it. */
export function isCleanText(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}

/** Whether a text's length in code points lies between the bounds, both inclusive. */
export function lengthWithin(text: string, min: number, max: number): boolean {
  const units = text.length;
  // A code point takes one or two units, so most texts are decided without counting.
  if (units < min || units > 2 * max) return false;
  if (units <= max && units >= 2 * min) return true;
  let points = 0;
  for (const _ of text) points += 1;
  return points >= min && points <= max;
}

/** The start of a text for use in a message: at most `max` UTF-16 units, never half a character. */
export function clip(text: string, max: number): string {
  if (text.length <= max) return text.toWellFormed();
  return `${text
    .slice(0, max)
    .replace(/[\uD800-\uDBFF]$/, '')
    .toWellFormed()}...`;
}
