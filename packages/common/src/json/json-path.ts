import { endOfString } from './exact-parser.js';
import { clip } from './text.js';

const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const COMMA = 0x2c;
const QUOTE = 0x22;

/** Longest path that is shown, in UTF-16 units. */
const MAX_PATH = 200;

/** An object or a list around the position. */
interface Level {
  /** Index in a list; null: an object. */
  index: number | null;
  /** The last key of an object as JSON. */
  key: string;
  /** The changed keys of an object, each with the number of the last that was equal to it. */
  keys: Map<string, number> | null;
}

/** The position within a JSON text that is read token by token. */
export class JsonPath {
  private readonly levels: Level[] = [];

  /** Reads a unit outside of strings. */
  pass(code: number): void {
    if (code === OPEN_OBJECT) this.levels.push({ index: null, key: '', keys: null });
    else if (code === OPEN_LIST) this.levels.push({ index: 0, key: '', keys: null });
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) this.levels.pop();
    else if (code === COMMA) {
      const last = this.levels.at(-1);
      if (last !== undefined && last.index !== null) last.index += 1;
    }
  }

  /** Reads a JSON text from an offset outside of strings. @returns where the next string begins, or `to` if none does before it */
  passToString(text: string, from: number, to: number): number {
    for (let at = from; at < to; at++) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) return at;
      this.pass(code);
    }
    return to;
  }

  /** @param key as JSON */
  enter(key: string): void {
    const last = this.levels.at(-1);
    if (last !== undefined) last.key = key;
  }

  /** The changed key, with a number if the object has an equal one that was changed. */
  unusedKey(changed: string): string {
    const last = this.levels.at(-1);
    if (last === undefined) return changed;
    const keys = (last.keys ??= new Map());
    let number = (keys.get(changed) ?? 0) + 1;
    while (number > 1 && keys.has(`${changed}-${number}`)) number += 1;
    const key = number === 1 ? changed : `${changed}-${number}`;
    keys.set(key, 1).set(changed, number);
    return key;
  }

  /** As JSON pointer. @param isKey whether the position is a key: then the pointer is that of its object */
  toString(isKey: boolean): string {
    const levels = isKey ? this.levels.slice(0, -1) : this.levels;
    const pointer = levels
      .map(({ index, key }) => String(index ?? JSON.parse(key)))
      .map((step) => `/${step.replaceAll('~', '~0').replaceAll('/', '~1')}`)
      .join('');
    return clip(pointer, MAX_PATH);
  }
}

/** The JSON pointer of the value that begins at an offset of a valid JSON text. */
export function pointerAt(text: string, offset: number): string {
  const path = new JsonPath();
  let at = path.passToString(text, 0, offset);
  while (at < offset) {
    const end = endOfString(text, at);
    path.enter(text.slice(at, end));
    at = path.passToString(text, end, offset);
  }
  return path.toString(false);
}
