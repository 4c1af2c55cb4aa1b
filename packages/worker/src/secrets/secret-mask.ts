import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { endOfString } from '@longshore/common/json/exact-parser';
import { jsonText, lazyObject } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { readJson } from '@longshore/common/json/read-json';
import { hasUnshown } from '@longshore/common/shown-text';
import { JsonPath } from '@longshore/common/json/json-path';
import { Masking } from './masking.js';
import { textsOf } from './secret-texts.js';
import { MIN_UNITS, TextAutomaton } from './text-automaton.js';

/** UTF-16 units that are masked before timers and heartbeats run: some milliseconds. */
const SLICE_UNITS = 256 * 1024;

/** So many masked texts of a JSON text are told. */
const MAX_PLACES = 20;

/** Shorter strings of a JSON text are searched where they are. */
const SHORT_UNITS = 1024;

/** Where a value of a secret was in a JSON text. */
export interface MaskedPlace {
  /** JSON pointer to the text, or to the object that has the key. */
  readonly path: string;
  /** Whether it was in a key. */
  readonly isKey: boolean;
  /** Names of the values; empty if they have none. */
  readonly names: readonly string[];
}

/** A JSON text without values of secrets. */
export interface MaskedJson {
  readonly text: string;
  /** The first places where one was. */
  readonly places: readonly MaskedPlace[];
}

/**
 * Replaces the values of secrets in texts by `***`: each value and each of its lines, without surrounding white space, as they are
 * and as they are written with escapes. Where one value contains another, or they overlap, all of their characters are replaced.
 * Of bytes that are no text, their base64 is found, and their text if it only holds NUL. Values in any other form, such as the
 * base64 of a text, are not found. The cost is linear in the text.
 */
export class SecretMask {
  /** Null: nothing is replaced. */
  private readonly automaton: TextAutomaton | null;
  /** Null: not asked for. */
  private named: Map<string, Set<string>> | null = null;

  /** @param names of the values, in their order, to say where they were */
  constructor(
    private readonly values: readonly string[],
    private readonly names: readonly string[] = [],
  ) {
    const texts = textsOf(values);
    this.automaton = texts.length === 0 ? null : new TextAutomaton(texts);
  }

  /** @param given values by their names, of which several may have one */
  static of(...given: readonly Readonly<Record<string, string | Buffer>>[]): SecretMask {
    return new SecretMask(
      given.flatMap((values) => Object.values(values).map(printedForm)),
      given.flatMap((values) => Object.keys(values)),
    );
  }

  /** How many steps all searches took: a measure of their cost that does not depend on the machine. */
  get steps(): number {
    return this.automaton?.steps ?? 0;
  }

  /** Masks a text that arrives in pieces; null: nothing is replaced. */
  begin(): Masking | null {
    return this.automaton === null ? null : new Masking(this.automaton);
  }

  /** For texts of limited length: it does not yield to the event loop. */
  text(text: string): string {
    const masking = this.begin();
    if (masking === null) return text;
    masking.write(text, true);
    return masking.show(text, 0, { from: 0, to: text.length, isLineBegin: false });
  }

  /** As {@link jsonText}. */
  async json(object: JsonObject): Promise<JsonObject> {
    const text = jsonText(object);
    const masked = await this.jsonText(text);
    return masked.text === text ? object : lazyObject(masked.text);
  }

  /** The names of the values that a text has, but not of one that ends where a longer one does. */
  namesIn(text: string): string[] {
    const { automaton } = this;
    if (automaton === null || this.names.length === 0) return [];
    const texts = new Set<number>();
    const masking = new Masking(automaton, texts);
    for (let at = 0; at < text.length; at += SLICE_UNITS)
      masking.write(text.slice(at, at + SLICE_UNITS), at + SLICE_UNITS >= text.length);
    const named = this.namesByText();
    const found = new Set<string>();
    for (const number of texts)
      for (const name of named.get(automaton.texts[number] ?? '') ?? []) found.add(name);
    return [...new Set(this.names)].filter((name) => found.has(name));
  }

  /**
   * Masks the strings and keys of a JSON text without white space between its tokens. Numbers and literals stay as they are: what
   * reads the JSON relies on their type. Keys that would become equal get a number. Yields to the event loop.
   */
  async jsonText(text: string): Promise<MaskedJson> {
    const masked = await this.maskJson(text, '');
    if (!masked.areKeysMasked || isReadable(masked.text)) return masked;
    // A masked key is equal to one that was there.
    return this.maskJson(text, `-${randomUUID().slice(0, 8)}`);
  }

  private async maskJson(text: string, suffix: string): Promise<MaskedJson & { areKeysMasked: boolean }> {
    const { automaton } = this;
    const places: MaskedPlace[] = [];
    if (automaton === null) return { text, places, areKeysMasked: false };
    const parts: string[] = [];
    const path = new JsonPath();
    let copied = 0;
    let areKeysMasked = false;
    const hasControls = hasUnshown(text);
    let backslash = -1;
    let sliceEnd = SLICE_UNITS;
    for (let at = 0; at < text.length;) {
      if (at >= sliceEnd) {
        await yieldToEventLoop();
        sliceEnd = at + SLICE_UNITS;
      }
      at = path.passToString(text, at, Math.min(sliceEnd, text.length));
      if (text[at] !== '"') continue;
      const end = endOfString(text, at);
      const isKey = text[end] === ':';
      let key = isKey ? text.slice(at, end) : '';
      if (backslash < at) backslash = indexOr(text.indexOf('\\', at), text.length);
      // Most strings have no values: these are not copied.
      const isPlain =
        end - at < SHORT_UNITS && backslash >= end && !hasControls && !automaton.finds(text, at + 1, end - 1);
      if (end - at >= MIN_UNITS && !isPlain) {
        const plain: string = backslash < end ? JSON.parse(text.slice(at, end)) : text.slice(at + 1, end - 1);
        const shown = plain.length > SLICE_UNITS ? await this.longText(plain) : this.text(plain);
        if (shown !== plain) {
          const changed = isKey ? path.unusedKey(shown + suffix) : shown;
          // Without escapes, what is left of the token needs none.
          key = backslash < end ? JSON.stringify(changed) : `"${changed}"`;
          parts.push(text.slice(copied, at), key);
          copied = end;
          areKeysMasked ||= isKey;
          if (places.length < MAX_PLACES)
            places.push({ path: path.toString(isKey), isKey, names: this.namesIn(plain) });
        }
      }
      if (isKey) path.enter(key);
      at = end;
    }
    parts.push(text.slice(copied));
    return { text: copied === 0 ? text : parts.join(''), places, areKeysMasked };
  }

  /** The names of the values by the texts that are searched for. */
  private namesByText(): ReadonlyMap<string, ReadonlySet<string>> {
    if (this.named === null) {
      this.named = new Map<string, Set<string>>();
      for (const [index, name] of this.names.entries()) {
        for (const text of textsOf([this.values[index] ?? ''])) {
          const names = this.named.get(text) ?? new Set();
          this.named.set(text, names.add(name));
        }
      }
    }
    return this.named;
  }

  private async longText(text: string): Promise<string> {
    const masking = this.begin();
    if (masking === null) return text;
    let masked = '';
    let shown = 0;
    for (let at = 0; at < text.length; at += SLICE_UNITS) {
      if (at > 0) await yieldToEventLoop();
      const isLast = at + SLICE_UNITS >= text.length;
      masking.write(text.slice(at, at + SLICE_UNITS), isLast);
      if (!masking.hasFound) continue;
      const end = isLast ? text.length : masking.settled();
      masked += masking.show(text, 0, { from: shown, to: end, isLineBegin: false });
      shown = end;
    }
    return shown === 0 ? text : masked + text.slice(shown);
  }
}

/** Masks nothing. */
export const NO_MASK = new SecretMask([]);

function indexOr(index: number, otherwise: number): number {
  return index < 0 ? otherwise : index;
}

function isReadable(text: string): boolean {
  try {
    readJson(Buffer.from(text));
    return true;
  } catch {
    return false;
  }
}

/** The lines in which a program may print a value: of bytes, base64 on one line and on lines of 76 characters. */
function printedForm(value: string | Buffer): string {
  if (typeof value === 'string') return value;
  const base64 = value.toString('base64');
  const lines = base64.match(/.{1,76}/g) ?? [];
  return [base64, ...lines, isUtf8(value) ? value.toString() : ''].join('\n');
}
