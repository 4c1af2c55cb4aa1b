import { memberTexts, parseJson, readExactly } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { fieldPath, itemPath } from '../../common/http/validation/problems.js';
import { references } from '../../runs/options/artifact-references.js';
import { ARGUMENT, MAX_ARGUMENTS } from '../../runs/options/option-declarations.js';
import { InvalidInputs } from '../definitions.errors.js';
import {
  readArgument,
  textOf,
  type Facts,
  type FlagArgument,
  inputOf,
  inputReference,
  parseTemplate,
  showReference,
  type Parts,
} from './template-text.js';
import { readCommandLine, type Word } from './code-words.js';

/** What references stand for in one run. */
export interface TemplateValues {
  readonly facts: Facts;
  /** Complete: with the defaults. */
  readonly inputs: JsonObject;
}

/** A text or a word with more is over its limit, in UTF-16 units, so the rest of it does not matter. */
const MOST_UNITS = 32_768;
const MOST_UNITS_OF_WORD = 2 * ARGUMENT.max;
/** As above, for a list of words. */
const MOST_WORDS = MAX_ARGUMENTS.max;

/**
 * The options of a definition for one run of it: references in `command`, `args`, `env` and the `sub_path` of `mounts` are
 * replaced, once, by what they stand for. A word or variable that refers to what the run does not have is left out. Limits are not checked.
 * @throws InvalidInputs if an input in the place of a script would become an option of the program that runs it, or what a
 *   `sub_path` refers to is absent
 */
export function expandOptions(options: JsonObject | null, values: TemplateValues): JsonObject | null {
  if (options === null) return null;
  const words = new Words(values);
  const expanded = { ...options };
  const line: RunWord[] = [];
  for (const name of ['command', 'args']) {
    const entries = options[name];
    if (!Array.isArray(entries)) continue;
    const list = words.expandList(name, entries);
    line.push(...list);
    expanded[name] = list.map(({ value }) => value);
  }
  const start = Array.isArray(options['command']) ? 'program' : 'argument';
  const { problems } = readCommandLine([[line]], start);
  if (problems.length > 0) throw new InvalidInputs(problems);
  if (isJsonObject(options['env'])) expanded['env'] = words.expandVariables(options['env']);
  if (Array.isArray(options['mounts'])) expanded['mounts'] = words.expandMounts(options['mounts']);
  return expanded;
}

/** A word of one run. */
type RunWord = Word & { readonly value: string };

class Words {
  readonly #facts: ReadonlyMap<string, string>;
  /** The inputs as exact JSON. */
  readonly #inputs: ReadonlyMap<string, string>;
  /** The inputs that were asked for, as texts. */
  readonly #words = new Map<string, string | undefined>();
  /** Those that were asked for as lists: as many elements as may become words. */
  readonly #lists = new Map<string, readonly string[]>();

  constructor({ facts, inputs }: TemplateValues) {
    this.#facts = new Map(Object.entries(facts));
    this.#inputs = memberTexts(inputs);
  }

  expandList(name: string, entries: readonly JsonValue[]): RunWord[] {
    const words: RunWord[] = [];
    for (const [at, entry] of entries.entries()) {
      if (words.length > MOST_WORDS) break;
      const path = itemPath(name, at);
      const argument = readArgument(entry);
      if (typeof argument !== 'string') words.push(...this.#expandFlag(path, argument));
      else {
        const parts = parseTemplate(argument);
        const value = this.#expand(parts, MOST_UNITS_OF_WORD);
        if (value !== undefined) words.push({ path, parts, value });
      }
    }
    return words.slice(0, MOST_WORDS + 1);
  }

  expandVariables(variables: JsonObject): JsonObject {
    return Object.fromEntries(
      Object.entries(variables).flatMap(([name, text]) => {
        const value = this.#expand(parseTemplate(textOf(text)), MOST_UNITS);
        return value === undefined ? [] : [[name, value]];
      }),
    );
  }

  expandMounts(mounts: readonly JsonValue[]): JsonValue[] {
    return mounts.map((mount, at) => {
      if (!isJsonObject(mount) || typeof mount['sub_path'] !== 'string') return mount;
      const value = this.#expand(parseTemplate(mount['sub_path']), MOST_UNITS);
      if (value !== undefined) return { ...mount, sub_path: value };
      const path = fieldPath(itemPath('mounts', at), 'sub_path');
      throw new InvalidInputs([`${path}: the run does not have what it refers to`]);
    });
  }

  /** The text, or at least as much of it as is over the limit; undefined: it refers to what the run does not have. */
  #expand(parts: Parts, mostUnits: number): string | undefined {
    let word = '';
    for (const part of parts) {
      const value = typeof part === 'string' ? part : this.#valueOf(part.name, inputOf(part));
      if (value === undefined) return undefined;
      word += value.slice(0, mostUnits + 1 - word.length);
    }
    return word;
  }

  #expandFlag(path: string, { flag, input, join }: FlagArgument): RunWord[] {
    const text = this.#textOf(input) ?? 'false';
    const alone: RunWord = { path, parts: [flag], value: flag };
    if (text === 'true' || text === 'false') return text === 'true' ? [alone] : [];
    const reference = inputReference(input);
    return this.#elementsOf(input, text).flatMap((value) =>
      join === undefined
        ? [alone, { path, parts: [reference], value }]
        : [{ path, parts: [flag + join, reference], value: flag + join + value }],
    );
  }

  #elementsOf(input: string, text: string): readonly string[] {
    const known = this.#lists.get(input);
    if (known !== undefined) return known;
    const texts = text.startsWith('[') ? [...memberTexts(Object(readExactly(text))).values()] : [text];
    const elements = texts
      .slice(0, MOST_WORDS + 1)
      .map((element) => toWord(element).slice(0, MOST_UNITS_OF_WORD + 1));
    this.#lists.set(input, elements);
    return elements;
  }

  /** @throws InvalidInputs for an input with a file, whose URL is made for the worker */
  #textOf(input: string): string | undefined {
    const text = this.#inputs.get(input);
    if (text?.includes('"$artifact"') !== true || references(parseJson(text)).length === 0) return text;
    throw new InvalidInputs([
      `command, args, env and mounts must not refer to ${showReference(inputReference(input))}: it is a file, whose URL stands in the input file`,
    ]);
  }

  #valueOf(name: string, input: string | undefined): string | undefined {
    if (input === undefined) return this.#facts.get(name);
    if (this.#words.has(input)) return this.#words.get(input);
    const text = this.#textOf(input);
    const word = text === undefined ? undefined : toWord(text).slice(0, MOST_UNITS + 1);
    this.#words.set(input, word);
    return word;
  }
}

/** A JSON text as a word: a string as it is, anything else as it is written. */
function toWord(text: string): string {
  return text.startsWith('"') ? String(JSON.parse(text)) : text;
}

/**
 * A text with references to facts replaced.
 * @throws InvalidInputs if it refers to anything else, or to what the run does not have
 */
export function expandText(path: string, text: string, facts: Facts): string {
  const values = new Map(Object.entries(facts));
  return parseTemplate(text)
    .map((part) => {
      if (typeof part === 'string') return part;
      const value = part.text.endsWith('}') ? values.get(part.name) : undefined;
      if (value !== undefined) return value;
      throw new InvalidInputs([`${path}: the run does not have ${showReference(part)}`]);
    })
    .join('');
}
