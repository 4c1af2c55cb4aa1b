import { clip } from '@longshore/common/json/text';
import { isJsonObject, type JsonValue } from '@longshore/common/json/json-value';

/** What a text refers to. */
export interface Reference {
  /** As it is written, such as `${inputs.model}`. */
  readonly text: string;
  /** What stands between the braces. */
  readonly name: string;
}

/** A part of a text: itself, or what it refers to. */
export type Part = string | Reference;

/** A word of a command line, or the value of a variable. */
export type Parts = readonly Part[];

/** Longest reference in a message, in characters. */
const MAX_SHOWN = 128;
/** What begins otherwise is no reference: in code it is the program's own, elsewhere {@link foreignReference} finds it. */
const TOKEN = /\$\$\{|\$\{((?:inputs|run|group|array|schedule)\.[^}]*)\}?/g;
const ANY_TOKEN = /\$\$\{|\$\{[^}]*\}?/g;
const INPUTS = 'inputs.';

/** The first `${...}` of a text that is not the literal `$${`, as it is written, if {@link parseTemplate} leaves some as they are. */
export function foreignReference(text: string): string | undefined {
  for (const [token] of text.matchAll(ANY_TOKEN)) {
    if (token !== '$${' && token.search(TOKEN) !== 0) return clip(token, MAX_SHOWN);
  }
  return undefined;
}

/** Splits a text at its references. `$${` is a literal `${`; a reference that is not closed goes to the end of the text. */
export function parseTemplate(text: string): Parts {
  const parts: Part[] = [];
  let literal = '';
  let from = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [token, name] = match;
    literal += text.slice(from, match.index);
    from = match.index + token.length;
    if (name === undefined) literal += '${';
    else {
      if (literal !== '') parts.push(literal);
      literal = '';
      parts.push({ text: token, name });
    }
  }
  literal += text.slice(from);
  return literal === '' ? parts : [...parts, literal];
}

/** The first reference of a text. */
export function firstReference(parts: Parts): Reference | undefined {
  return parts.find((part) => typeof part !== 'string');
}

/** A reference as messages show it. */
export function showReference({ text }: Reference): string {
  return clip(text, MAX_SHOWN);
}

/** The input that a reference names; undefined for one of another kind. */
export function inputOf({ name }: Reference): string | undefined {
  return name.startsWith(INPUTS) ? name.slice(INPUTS.length) : undefined;
}

/** The reference to an input. */
export function inputReference(input: string): Reference {
  return { text: `\${${INPUTS}${input}}`, name: INPUTS + input };
}

/** What texts may refer to beside inputs. A run has some of it: where it has none, a word or variable that refers to it is left out. */
export const FACTS = [
  'run.id',
  'run.name',
  'group.id',
  'array.index',
  'array.size',
  'schedule.time',
  'schedule.date',
  'schedule.previous',
  'schedule.next',
] as const;
export type Fact = (typeof FACTS)[number];

/** What one run has of it. */
export type Facts = Readonly<Partial<Record<Fact, string>>>;

/** What the runs of a definition may have. */
export const ANY_FACTS: ReadonlySet<string> = new Set(FACTS);

/** Whether a reference is well-formed and names an input or one of the facts. */
export function isKnown(reference: Reference, facts: ReadonlySet<string>): boolean {
  if (!reference.text.endsWith('}')) return false;
  return inputOf(reference) !== undefined || facts.has(reference.name);
}

/** What texts may refer to, for messages. */
export function knownReferences(facts: ReadonlySet<string>): string {
  const names = ['inputs.NAME', ...facts].map((name) => `\${${name}}`);
  return `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`;
}

/** An entry of `args` that stands for the words of an input. */
export interface FlagArgument {
  readonly flag: string;
  /** The input's name. */
  readonly input: string;
  /** Joins flag and value to one word. */
  readonly join?: string;
}

/** An entry of a definition's `args`. */
export type Argument = string | FlagArgument;

/** Reads a stored entry of `command` or `args`. */
export function readArgument(entry: JsonValue): Argument {
  if (!isJsonObject(entry)) return textOf(entry);
  const { flag, input, join } = entry;
  return { flag: textOf(flag), input: textOf(input), ...(typeof join === 'string' && { join }) };
}

/** A stored text. */
export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}
