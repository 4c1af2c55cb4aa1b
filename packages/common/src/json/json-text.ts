import { compactJson, JsonPart, parseScalar, type JsonMember } from './exact-parser.js';
import { isJsonObject, type JsonObject, type JsonValue } from './json-value.js';

/** Key under which a proxy returns its handler. */
const LAZY = Symbol('lazy JSON');

/** Printed in the place of a text while JSON.stringify runs. The random part keeps other strings from being equal. */
const PLACEHOLDER = `\u0000${Math.random()}`;
const PRINTED_PLACEHOLDER = JSON.stringify(PLACEHOLDER);

/** The texts for the placeholders of the running {@link stringifyJson}; undefined while none runs. */
let collected: string[] | undefined;

const printed = new WeakMap<object, string>();

/** What the objects of {@link changeable} were copied from. */
const sources = new WeakMap<object, JsonPart>();

/**
 * Prints a value like JSON.stringify, except that each part that {@link lazyJson} or {@link readExactly} returned is
 * printed as its text. JSON.stringify itself prints the parsed numbers of such parts.
 * @param indent of nested values, in spaces; such parts stay on one line
 */
export function stringifyJson(value: unknown, indent = 0): string {
  const outer = collected;
  const texts: string[] = [];
  collected = texts;
  let frame: string;
  try {
    frame = JSON.stringify(value, null, indent);
  } finally {
    collected = outer;
  }
  if (texts.length === 0) return frame;
  let text = '';
  let from = 0;
  for (const part of texts) {
    const at = frame.indexOf(PRINTED_PLACEHOLDER, from);
    text += frame.slice(from, at) + part;
    from = at + PRINTED_PLACEHOLDER.length;
  }
  return text + frame.slice(from);
}

/** The cached JSON text of an object or a list that does not change, as {@link stringifyJson} prints it. */
export function jsonText(value: object): string {
  const known = lazyOf(value)?.text ?? printed.get(value);
  if (known !== undefined) return known;
  const text = stringifyJson(value);
  printed.set(value, text);
  return text;
}

/**
 * The value of a valid JSON text. An object or a list keeps the text, is parsed at the first access to a member, and
 * cannot be changed. Its numbers are those of JSON.parse, except that none becomes infinite or vanishes to zero.
 */
export function lazyJson(text: string): JsonValue {
  return text === '{}' || isScalar(text) ? JSON.parse(text) : proxyOf(text);
}

/** As {@link lazyJson}, for the text of an object. @throws TypeError for another one */
export function lazyObject(text: string): JsonObject {
  const value = lazyJson(text);
  if (!isJsonObject(value)) throw new TypeError('the JSON text is not that of an object');
  return value;
}

/** Parses a JSON text; {@link stringifyJson} prints its objects and lists exactly. @throws SyntaxError */
export function parseJson(text: string): JsonValue {
  const plain: JsonValue = JSON.parse(text);
  return JSON.stringify(plain) === text ? plain : readExactly(text);
}

/** Parses and prints JSON exactly. */
export const EXACT_JSON = {
  stringify: (value: unknown): string => stringifyJson(value),
  parse: parseJson,
} as const;

/** As {@link parseJson}, for a text that is known to be valid JSON. White space is removed from the texts. */
export function readExactly(text: string): JsonValue {
  const compact = compactJson(text);
  if (isScalar(compact)) return parseScalar(compact);
  const part = JsonPart.of(compact);
  return part.isPrinted ? JSON.parse(compact) : proxyOf(part);
}

/** The object with these members, each a key and the JSON text of its value. */
export function composeJson(members: Iterable<readonly [key: string, text: string]>): JsonObject {
  return lazyObject(`{${Array.from(members, ([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')}}`);
}

/** The exact JSON text of one member of an object or a list; undefined: it has no such own member. */
export function memberText(value: object, key: string): string | undefined {
  if (!Object.hasOwn(value, key)) return undefined;
  const exact = partOf(value)
    ?.members()
    .find((member) => member.key === key);
  return exact?.text ?? literalsOf(value)?.get(key) ?? stringifyJson(Reflect.get(value, key));
}

/** The exact JSON text of each member of an object or a list, by its key or index, in the order of the text. */
export function memberTexts(value: object): ReadonlyMap<string, string> {
  const exact = partOf(value)?.members();
  return new Map(
    exact?.map(({ key, text }) => [key, text]) ??
      Object.entries(value).map(([key, member]) => [key, stringifyJson(member)]),
  );
}

/**
 * A plain object with the members of one that cannot be changed; any other value itself. {@link memberText} and
 * {@link literalsOf} know the digits of its numbers; stringifyJson prints these as JSON.stringify does.
 */
export function changeable(value: unknown): unknown {
  const part = isJsonObject(value) ? partOf(value) : undefined;
  if (part === undefined) return value;
  const copy: object = { ...Object(value) };
  sources.set(copy, part);
  return copy;
}

/** The literals of the numbers that are as they were when {@link changeable} made the object; undefined for other objects. */
export function literalsOf(value: object): ReadonlyMap<string, string> | undefined {
  const members = sources.get(value)?.members();
  const isUnchanged = ({ key, text, part }: JsonMember): boolean => {
    const current: unknown = Reflect.get(value, key);
    return part === undefined && typeof current === 'number' && parseScalar(text) === current;
  };
  return members && new Map(members.filter(isUnchanged).map(({ key, text }) => [key, text]));
}

/** A copy of a text that does not refer to the longer text that it may be a part of: for texts that are kept in memory. */
export function ownText(text: string): string {
  return Buffer.from(text).toString();
}

/**
 * An object or a list with the same members, whose numbers {@link stringifyJson} does not print exactly: to go through many
 * members, for each of which {@link lazyJson}'s would be asked.
 */
export function parsedOf(value: object): object {
  const parsed = lazyOf(value)?.parsed;
  return parsed === undefined ? value : parsedOf(parsed);
}

/** The parts of an object's or a list's text; undefined: JSON.stringify prints the members as their texts. */
export function partOf(value: object): JsonPart | undefined {
  return lazyOf(value)?.part;
}

/** Handler of the proxies of {@link lazyJson} and {@link readExactly}. */
class LazyJson implements ProxyHandler<object> {
  #value: object | undefined;

  /** @param source a part of a text, or a text that has not been checked for what JSON.stringify would print differently */
  constructor(private readonly source: JsonPart | string) {}

  get text(): string {
    return typeof this.source === 'string' ? this.source : this.source.text;
  }

  /** Undefined: JSON.stringify prints the members as their texts. */
  get part(): JsonPart | undefined {
    return typeof this.source === 'string' ? lazyOf(this.parsed)?.part : this.source;
  }

  get(_target: object, key: string | symbol): unknown {
    if (key === LAZY) return this;
    const texts = collected;
    if (key === 'toJSON' && texts !== undefined) {
      return () => {
        texts.push(this.text);
        return PLACEHOLDER;
      };
    }
    return Reflect.get(this.parsed, key);
  }

  has(_target: object, key: string | symbol): boolean {
    return Reflect.has(this.parsed, key);
  }

  ownKeys(): (string | symbol)[] {
    return Reflect.ownKeys(this.parsed);
  }

  getOwnPropertyDescriptor(_target: object, key: string | symbol): PropertyDescriptor | undefined {
    return Reflect.getOwnPropertyDescriptor(this.parsed, key);
  }

  // Called by assignments, too.
  defineProperty(): boolean {
    return false;
  }

  deleteProperty(): boolean {
    return false;
  }

  preventExtensions(): boolean {
    return false;
  }

  setPrototypeOf(): boolean {
    return false;
  }

  get parsed(): object {
    const { source } = this;
    return (this.#value ??= typeof source === 'string' ? Object(parseJson(source)) : source.parse(proxyOf));
  }
}

function proxyOf(source: JsonPart | string): JsonValue {
  const isList = typeof source === 'string' ? source.startsWith('[') : source.isList;
  const lazy = new LazyJson(source);
  return isList ? new Proxy<JsonValue[]>(LIST, lazy) : new Proxy<JsonObject>(OBJECT, lazy);
}

function isScalar(text: string): boolean {
  return !text.startsWith('{') && !text.startsWith('[');
}

function lazyOf(value: object): LazyJson | undefined {
  const lazy: unknown = Reflect.get(value, LAZY);
  return lazy instanceof LazyJson ? lazy : undefined;
}

/** Node.js prints a proxy as its target; this is its hook. */
const HOOK = {
  [Symbol.for('nodejs.util.inspect.custom')](this: object): object {
    return Array.isArray(this) ? [...this] : { ...this };
  },
};

/** The target of each proxy that stands for an object. */
const OBJECT: JsonObject = Object.assign({}, HOOK);

/** The target of each proxy that stands for a list. */
const LIST: JsonValue[] = Object.assign([], HOOK);
