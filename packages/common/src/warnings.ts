/** Bytes of all values together, at most: clients refuse long headers. */
const MAX_BYTES = 4096;

/**
 * Values of the header `Warning` (RFC 7234, code 299) for texts, one for each. Characters beyond ASCII are escaped as in JSON. Where
 * they would be too long, the last value tells how many texts are left out.
 */
export function toWarnings(texts: readonly string[]): string[] {
  const values: string[] = [];
  let bytes = 0;
  for (const [index, text] of texts.entries()) {
    const value = toWarning(text);
    bytes += value.length;
    if (bytes > MAX_BYTES)
      return [...values, toWarning(`${texts.length - index} more warnings are left out`)];
    values.push(value);
  }
  return values;
}

/** The texts of the header `Warning` of a response. */
export function readWarnings(headers: Headers): string[] {
  const values = headers.get('Warning') ?? '';
  return [...values.matchAll(/299 - "((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) =>
    text.replaceAll(/\\(.)/g, '$1'),
  );
}

function toWarning(text: string): string {
  const ascii = text.replaceAll(
    /[^\x20-\x7e]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `299 - "${ascii.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
