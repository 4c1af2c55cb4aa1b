import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { endOfString } from '@longshore/common/json/exact-parser';
import { jsonText, lazyJson } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { readJson } from '@longshore/common/json/read-json';
import { Masking } from './masking.js';
import { textsOf } from './secret-texts.js';
import { MIN_UNITS, TextAutomaton } from './text-automaton.js';

/** UTF-16 units that are masked before timers and heartbeats run: some milliseconds. */
const SLICE_UNITS = 256 * 1024;

/** Shorter tokens of a JSON text are searched where they are. */
const SHORT_UNITS = 1024;

const SCALAR = /[^\s"{}[\],:]+/y;

/**
 * Replaces the values of secrets in texts by `***`: each value and each of its lines, without surrounding white space, as they are
 * and as they are written with escapes. Where one value contains another, or they overlap, all of their characters are replaced.
 * Values in any other form, such as base64, are not found. The cost is linear in the text.
 */
export class SecretMask {
  /** Null: nothing is replaced. */
  private readonly automaton: TextAutomaton | null;

  constructor(values: readonly string[]) {
    const texts = textsOf(values);
    this.automaton = texts.length === 0 ? null : new TextAutomaton(texts);
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
    const slices = this.slices(text);
    let slice = slices.next();
    while (slice.done !== true) slice = slices.next();
    return slice.value;
  }

  /** As {@link jsonText}. */
  async json(object: JsonObject): Promise<JsonObject> {
    const text = jsonText(object);
    const masked = await this.jsonText(text);
    const read = masked === text ? object : lazyJson(masked);
    return isJsonObject(read) ? read : {};
  }

  /**
   * Masks the strings, numbers and keys of a JSON text without white space between its tokens. Other numbers keep all their
   * digits. Yields to the event loop.
   * @throws JsonRefused when two keys become equal
   */
  async jsonText(text: string): Promise<string> {
    const { automaton } = this;
    if (automaton === null) return text;
    const parts: string[] = [];
    let copied = 0;
    let areKeysMasked = false;
    let backslash = -1;
    let sliceEnd = SLICE_UNITS;
    for (let at = 0; at < text.length;) {
      if (at >= sliceEnd) {
        await yieldToEventLoop();
        sliceEnd = at + SLICE_UNITS;
      }
      const isString = text[at] === '"';
      const end = isString ? endOfString(text, at) : endOfScalar(text, at);
      if (backslash < at) backslash = indexOr(text.indexOf('\\', at), text.length);
      // Most tokens are short and have neither escapes nor values: these are not copied.
      const isPlain = end - at < SHORT_UNITS && backslash >= end && !automaton.finds(text, at, end);
      if (end - at >= MIN_UNITS && !isPlain) {
        const token = text.slice(at, end);
        const plain: string = isString ? JSON.parse(token) : token;
        const shown = await this.longText(plain);
        if (shown !== plain) {
          parts.push(text.slice(copied, at), JSON.stringify(shown));
          copied = end;
          areKeysMasked ||= text[end] === ':';
        }
      }
      at = Math.max(end, at + 1);
    }
    if (copied === 0) return text;
    const masked = parts.join('') + text.slice(copied);
    // Keys that have become equal are refused.
    if (areKeysMasked) readJson(Buffer.from(masked));
    return masked;
  }

  private async longText(text: string): Promise<string> {
    const slices = this.slices(text);
    let slice = slices.next();
    for (; slice.done !== true; slice = slices.next()) await yieldToEventLoop();
    return slice.value;
  }

  private *slices(text: string): Generator<undefined, string> {
    const masking = this.begin();
    if (masking === null) return text;
    let masked = '';
    let shown = 0;
    for (let at = 0; at < text.length; at += SLICE_UNITS) {
      if (at > 0) yield;
      const isLast = at + SLICE_UNITS >= text.length;
      masking.write(text.slice(at, at + SLICE_UNITS), isLast);
      const end = isLast ? text.length : masking.settled();
      masked += masking.show(text, 0, { from: shown, to: end, isLineBegin: false });
      shown = end;
    }
    return masked;
  }
}

/** Masks nothing. */
export const NO_MASK = new SecretMask([]);

function indexOr(index: number, otherwise: number): number {
  return index < 0 ? otherwise : index;
}

/** The position itself: no scalar begins there. */
function endOfScalar(text: string, at: number): number {
  SCALAR.lastIndex = at;
  return SCALAR.test(text) ? SCALAR.lastIndex : at;
}
