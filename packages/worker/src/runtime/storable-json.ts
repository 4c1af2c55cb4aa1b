import { compactJson, endOfString } from '@longshore/common/json/exact-parser';
import { JsonRefused, readJson } from '@longshore/common/json/read-json';
import { JsonPath } from '@longshore/common/json/json-path';

/** Stands for what cannot be stored. */
export const REPLACEMENT = '\uFFFD';

/** A JSON text as it can be stored. */
export interface StorableJson {
  readonly text: string;
  readonly value: unknown;
  /** Number of characters that could not be stored and became U+FFFD. */
  readonly replaced: number;
}

/**
 * Reads a JSON text of a program. NUL characters and lone surrogates become U+FFFD. Keys with U+FFFD that are equal get a number.
 * @throws JsonRefused
 */
export function readStorable(text: string, replaced = 0): StorableJson {
  try {
    return { text, value: readJson(Buffer.from(text)), replaced };
  } catch (error) {
    const reason = error instanceof JsonRefused ? error.reason : null;
    if (reason === 'text' && replaced === 0) {
      const storable = withoutUnstorable(text);
      return readStorable(storable.text, storable.replaced);
    }
    const numbered = reason === 'duplicate-key' ? withNumberedKeys(text) : text;
    if (numbered === text) throw error;
    return readStorable(numbered, replaced);
  }
}

/** An escaped surrogate pair, NUL or lone surrogate, or the begin of any other escape. */
const ESCAPE =
  /\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})|\\[^]/g;

const UNSTORABLE = /^\\u....$/;

/** JSON can only write the characters that cannot be stored with escapes. */
function withoutUnstorable(json: string): { readonly text: string; readonly replaced: number } {
  let replaced = 0;
  const text = json.replace(ESCAPE, (escape) => {
    if (!UNSTORABLE.test(escape)) return escape;
    replaced += 1;
    return REPLACEMENT;
  });
  return { text, replaced };
}

function withNumberedKeys(json: string): string {
  const text = compactJson(json);
  const path = new JsonPath();
  const parts: string[] = [];
  let copied = 0;
  const nextString = (from: number): number => path.passToString(text, from, text.length);
  for (let at = nextString(0), end = 0; at < text.length; at = nextString(end)) {
    end = endOfString(text, at);
    const literal = text[end] === ':' ? text.slice(at, end) : '';
    if (literal.includes(REPLACEMENT)) {
      const key: string = JSON.parse(literal);
      const unused = path.unusedKey(key);
      if (unused !== key) {
        parts.push(text.slice(copied, at), JSON.stringify(unused));
        copied = end;
      }
    }
  }
  return copied === 0 ? json : parts.join('') + text.slice(copied);
}
