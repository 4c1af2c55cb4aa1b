import { memberTexts, readExactly } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { fieldPath, itemPath } from '../../common/http/validation/problems.js';
import { InvalidInputs } from '../definitions.errors.js';
import {
  readArgument,
  textOf,
  type FlagArgument,
  inputOf,
  inputReference,
  parseTemplate,
} from './template-text.js';
import { codeProblems, type Word } from './code-words.js';

/** What references stand for in one run. */
export interface TemplateValues {
  readonly runId: string;
  /** Complete: with the defaults. */
  readonly inputs: JsonObject;
}

/** A longer text is over every limit, so the rest of it does not matter. */
const MOST_UNITS = 65_536;
/** As above, for a list of words. */
const MOST_WORDS = 1000;

/**
 * The options of a definition for one run of it: references in `command`, `args`, `env` and the `sub_path` of `mounts` are
 * replaced, once, by what they stand for. A word or variable that refers to an absent input is left out. Limits are not checked.
 * @throws InvalidInputs if an input in the place of a script would become an option of the program that runs it, or one of a
 *   `sub_path` is absent
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
  const problems = codeProblems([[line]], start);
  if (problems.length > 0) throw new InvalidInputs(problems);
  if (isJsonObject(options['env'])) expanded['env'] = words.expandVariables(options['env']);
  if (Array.isArray(options['mounts'])) expanded['mounts'] = words.expandMounts(options['mounts']);
  return expanded;
}

/** A word of one run. */
type RunWord = Word & { readonly value: string };

class Words {
  readonly #runId: string;
  /** The inputs as exact JSON. */
  readonly #inputs: ReadonlyMap<string, string>;

  constructor({ runId, inputs }: TemplateValues) {
    this.#runId = runId;
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
        const value = this.#expandText(argument);
        if (value !== undefined) words.push({ path, parts: parseTemplate(argument), value });
      }
    }
    return words;
  }

  expandVariables(variables: JsonObject): JsonObject {
    return Object.fromEntries(
      Object.entries(variables).flatMap(([name, text]) => {
        const value = this.#expandText(textOf(text));
        return value === undefined ? [] : [[name, value]];
      }),
    );
  }

  expandMounts(mounts: readonly JsonValue[]): JsonValue[] {
    return mounts.map((mount, at) => {
      if (!isJsonObject(mount) || typeof mount['sub_path'] !== 'string') return mount;
      const value = this.#expandText(mount['sub_path']);
      if (value !== undefined) return { ...mount, sub_path: value };
      const path = fieldPath(itemPath('mounts', at), 'sub_path');
      throw new InvalidInputs([`${path}: an input that it refers to is absent`]);
    });
  }

  #expandText(text: string): string | undefined {
    let word = '';
    for (const part of parseTemplate(text)) {
      const value = typeof part === 'string' ? part : this.#valueOf(part.name, inputOf(part));
      if (value === undefined) return undefined;
      if (word.length <= MOST_UNITS) word += value;
    }
    return word;
  }

  #expandFlag(path: string, { flag, input, join }: FlagArgument): RunWord[] {
    const text = this.#inputs.get(input) ?? 'false';
    const alone: RunWord = { path, parts: [flag], value: flag };
    if (text === 'true' || text === 'false') return text === 'true' ? [alone] : [];
    const texts = text.startsWith('[') ? [...memberTexts(Object(readExactly(text))).values()] : [text];
    const reference = inputReference(input);
    return texts
      .slice(0, MOST_WORDS)
      .map(toWord)
      .flatMap((value) =>
        join === undefined
          ? [alone, { path, parts: [reference], value }]
          : [{ path, parts: [flag + join, reference], value: flag + join + value }],
      );
  }

  #valueOf(name: string, input: string | undefined): string | undefined {
    if (input === undefined) return name === 'run.id' ? this.#runId : undefined;
    const text = this.#inputs.get(input);
    return text === undefined ? undefined : toWord(text);
  }
}

/** A JSON text as a word: a string as it is, anything else as it is written. */
function toWord(text: string): string {
  return text.startsWith('"') ? String(JSON.parse(text)) : text;
}
