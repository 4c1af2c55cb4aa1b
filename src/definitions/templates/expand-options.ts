import { memberTexts, readExactly } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { readArgument, textOf, type Argument, type FlagArgument } from './argument.js';
import { inputOf, parseTemplate } from './template-text.js';

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
 * The options of a definition for one run of it: references in `command`, `args` and `env` are replaced, once, by what they
 * stand for. A word or variable that refers to an absent input is left out. Limits are not checked.
 */
export function expandOptions(options: JsonObject | null, values: TemplateValues): JsonObject | null {
  if (options === null) return null;
  const words = new Words(values);
  const expanded = { ...options };
  for (const name of ['command', 'args']) {
    const entries = options[name];
    if (Array.isArray(entries)) expanded[name] = words.expandList(entries.map(readArgument));
  }
  if (isJsonObject(options['env'])) expanded['env'] = words.expandVariables(options['env']);
  return expanded;
}

class Words {
  readonly #runId: string;
  /** The inputs as exact JSON. */
  readonly #inputs: ReadonlyMap<string, string>;

  constructor({ runId, inputs }: TemplateValues) {
    this.#runId = runId;
    this.#inputs = memberTexts(inputs);
  }

  expandList(entries: readonly Argument[]): string[] {
    const words: string[] = [];
    for (const entry of entries) {
      if (words.length > MOST_WORDS) break;
      if (typeof entry !== 'string') words.push(...this.#expandFlag(entry));
      else {
        const word = this.#expandText(entry);
        if (word !== undefined) words.push(word);
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

  #expandText(text: string): string | undefined {
    let word = '';
    for (const part of parseTemplate(text)) {
      const value = typeof part === 'string' ? part : this.#valueOf(part.name, inputOf(part));
      if (value === undefined) return undefined;
      if (word.length <= MOST_UNITS) word += value;
    }
    return word;
  }

  #expandFlag({ flag, input, join }: FlagArgument): string[] {
    const text = this.#inputs.get(input) ?? 'false';
    if (text === 'true' || text === 'false') return text === 'true' ? [flag] : [];
    const texts = text.startsWith('[') ? [...memberTexts(Object(readExactly(text))).values()] : [text];
    return texts
      .slice(0, MOST_WORDS)
      .map(toWord)
      .flatMap((word) => (join === undefined ? [flag, word] : [flag + join + word]));
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
