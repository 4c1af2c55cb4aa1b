import { endOfString } from '@longshore/common/json/exact-parser';
import { jsonText } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { readJson } from '@longshore/common/json/read-json';

/** Stands in for a value. */
export const MASK = '***';

/** Shorter values, and shorter lines of a value, are not masked, in characters. */
const MIN_LENGTH = 4;

const HASHES = 2 ** 16;

const SCALAR = /[^\s"{}[\],:]+/y;

/**
 * Replaces the values of secrets in texts by {@link MASK}: each value, each of its lines, both without surrounding white space,
 * and as they are written in a JSON string. Where one value contains another, or they overlap, all of their characters are
 * replaced. Values in any other form, such as base64, are not found.
 */
export class SecretMask {
  /** Length of the longest text that is replaced, in UTF-16 units; 0: nothing is. */
  readonly longest: number;
  /** By the first {@link MIN_LENGTH} units; the longest first. */
  private readonly byStart = new Map<string, string[]>();
  /** 1 for the hashes of these first units: most positions of a text need no more than a look at it. */
  private readonly filter: Uint8Array;

  constructor(values: readonly string[]) {
    const texts = [...new Set(values.flatMap(formsOf))].toSorted((a, b) => b.length - a.length);
    this.longest = texts[0]?.length ?? 0;
    this.filter = new Uint8Array(this.longest === 0 ? 0 : HASHES);
    for (const text of texts) {
      const start = text.slice(0, MIN_LENGTH);
      this.filter[hashOf(start)] = 1;
      this.byStart.set(start, [...(this.byStart.get(start) ?? []), text]);
    }
  }

  text(text: string): string {
    return this.longest === 0 ? text : this.begin(text, text.length).masked;
  }

  /**
   * Masks the strings, numbers and keys of a JSON object. Other numbers keep all their digits.
   * @throws JsonRefused when two keys become equal
   */
  json(object: JsonObject): JsonObject {
    if (this.longest === 0) return object;
    const text = jsonText(object);
    let masked = '';
    let copied = 0;
    for (let at = 0; at < text.length;) {
      const isString = text[at] === '"';
      const end = isString ? endOfString(text, at) : endOfScalar(text, at);
      if (end > at) {
        const token = text.slice(at, end);
        const plain: string = isString ? JSON.parse(token) : token;
        const shown = this.text(plain);
        if (shown !== plain) {
          masked += text.slice(copied, at) + JSON.stringify(shown);
          copied = end;
        }
      }
      at = Math.max(end, at + 1);
    }
    if (copied === 0) return object;
    const read = readJson(Buffer.from(masked + text.slice(copied)));
    return isJsonObject(read) ? read : {};
  }

  /**
   * Masks the texts that begin before `end`.
   * @returns the masked text up to the end of the last of them, but at least to `end`, and the rest as it is
   */
  begin(text: string, end: number): { readonly masked: string; readonly rest: string } {
    let masked = '';
    let done = 0;
    let hash = 0;
    for (let last = 0; last < Math.min(text.length, end + MIN_LENGTH - 1); last++) {
      hash = addUnit(hash, text.charCodeAt(last));
      const at = last - MIN_LENGTH + 1;
      const length = at >= 0 && this.filter[hash] === 1 ? this.lengthAt(text, at) : 0;
      if (length === 0) continue;
      if (at >= done) masked += text.slice(done, at) + MASK;
      done = Math.max(done, at + length);
    }
    if (done < end) {
      masked += text.slice(done, end);
      done = end;
    }
    return { masked, rest: text.slice(done) };
  }

  /** Length of the longest text to replace that begins there; 0: none. */
  private lengthAt(text: string, at: number): number {
    const candidates = this.byStart.get(text.slice(at, at + MIN_LENGTH)) ?? [];
    return candidates.find((candidate) => text.startsWith(candidate, at))?.length ?? 0;
  }
}

/** The hash of the last {@link MIN_LENGTH} units, given that of the units before. */
function addUnit(hash: number, unit: number): number {
  return ((hash << (16 / MIN_LENGTH)) ^ unit) & (HASHES - 1);
}

function hashOf(text: string): number {
  return text.split('').reduce((hash, unit) => addUnit(hash, unit.charCodeAt(0)), 0);
}

/** Masks nothing. */
export const NO_MASK = new SecretMask([]);

/** What is replaced for a value. */
function formsOf(value: string): string[] {
  const lines = value.split(/\r\n|\r|\n/);
  const plain = [value, ...lines].flatMap((text) => [text, text.trim()]);
  const long = [...new Set(plain)].filter((text) => text.trim() !== '' && [...text].length >= MIN_LENGTH);
  return long.flatMap((text) => [text, ...jsonFormsOf(text)]);
}

/** How encoders write a text in a JSON string: as short as possible, with escapes of what HTML must not have, with `\/`. */
function jsonFormsOf(text: string): string[] {
  const shortest = JSON.stringify(text).slice(1, -1);
  const ascii = shortest.replaceAll(/[\u0080-\uffff]/g, unicodeEscape);
  return [shortest, ascii].flatMap((form) => [
    form,
    form.replaceAll(/[<>&\u2028\u2029]/g, unicodeEscape),
    form.replaceAll('/', String.raw`\/`),
  ]);
}

function unicodeEscape(unit: string): string {
  return String.raw`\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The position itself: no scalar begins there. */
function endOfScalar(text: string, at: number): number {
  SCALAR.lastIndex = at;
  return SCALAR.test(text) ? SCALAR.lastIndex : at;
}
