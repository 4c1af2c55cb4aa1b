import type { ApiDescription, Schema } from '../fuzz/api-document.js';

/** Planes of four-byte characters, so that texts of them hardly compress. */
const FIRST = 0x20000;
const CHARACTERS = 0x1_0000;

/** A text of so many characters of four bytes each, the same for the same seed. */
export function fourByteText(length: number, seed = 1): string {
  let state = seed;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const code = (state >>> 12) % (2 * CHARACTERS - 16);
    return String.fromCodePoint(code < CHARACTERS - 8 ? FIRST + code : 0xf_0000 + (code % (CHARACTERS - 8)));
  }).join('');
}

/** A value of the schema with all its fields, whose texts are as long as they may be, in bytes too where it allows that. */
export function longestValue(api: ApiDescription, given: Schema): unknown {
  const schema = api.resolve(given);
  const [choice] = schema.oneOf ?? schema.anyOf ?? [];
  if (choice) return longestValue(api, choice);
  if (schema.enum) return schema.enum[0];
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case 'string':
      return longestText(schema);
    case 'integer':
    case 'number':
      return schema.minimum ?? 1;
    case 'boolean':
      return true;
    case 'array':
      return schema.items ? [longestValue(api, schema.items)] : [];
    default:
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, field]) => [name, longestValue(api, field)]),
      );
  }
}

function longestText({ maxLength = 1024, pattern = '', format, example }: Schema): string {
  if (format === 'date-time') return '2100-01-01T00:00:00.000Z';
  const form = new RegExp(pattern, 'u');
  const fourBytes = fourByteText(maxLength);
  const candidates = [fourBytes, `/${fourBytes.slice(2)}`, 'a'.repeat(maxLength), 'A'.repeat(maxLength)];
  return candidates.find((text) => form.test(text)) ?? (typeof example === 'string' ? example : '');
}
