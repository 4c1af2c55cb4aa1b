import type { Schemas } from '@longshore/client';

/** What a definition says of one input. */
export type InputSpec = Schemas['InputSpec'];

/** How an input is entered; what is no checked type is a label: JSON of any kind, or else text. */
export type InputKind = 'text' | 'integer' | 'number' | 'boolean' | 'object' | 'array' | 'label';

/** What was entered, by name of the input; what is not there was not given, and a default takes its place. */
export type InputTexts = ReadonlyMap<string, string>;

const KINDS: ReadonlyMap<string, InputKind> = new Map([
  ['string', 'text'],
  ['str', 'text'],
  ['integer', 'integer'],
  ['int', 'integer'],
  ['number', 'number'],
  ['float', 'number'],
  ['boolean', 'boolean'],
  ['bool', 'boolean'],
  ['object', 'object'],
  ['dict', 'object'],
  ['array', 'array'],
  ['list', 'array'],
]);

const INTEGER = /^[+-]?\d+$/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

/** What was entered for one input, as a value or as what is wrong with it. */
export type ReadInput = { readonly value: unknown } | { readonly problem: string };

export function kindOf(type: string): InputKind {
  return KINDS.get(type.toLowerCase()) ?? 'label';
}

/** The type as a person reads it: a label without its prefix. */
export function nameOfType(type: string): string {
  return type.replace(/^label:/, '');
}

/** The limits of an input in words; empty without any. */
export function limitsOf({ minimum, maximum, max_length: length, enum: values }: InputSpec): string {
  return [
    minimum === undefined ? '' : `at least ${minimum}`,
    maximum === undefined ? '' : `at most ${maximum}`,
    length === undefined ? '' : `at most ${length} characters`,
    values === undefined ? '' : `one of ${values.map((value) => JSON.stringify(value)).join(', ')}`,
  ]
    .filter((limit) => limit !== '')
    .join(', ');
}

/** Reads what was entered. */
export function readInput(kind: InputKind, text: string): ReadInput {
  switch (kind) {
    case 'text':
      return { value: text };
    case 'boolean':
      return { value: text === 'true' };
    case 'integer':
      if (!INTEGER.test(text.trim())) return { problem: 'Enter a whole number.' };
      return Number.isSafeInteger(Number(text))
        ? { value: Number(text) }
        : { problem: 'The number is too large to be stored exactly.' };
    case 'number':
      return NUMBER.test(text.trim()) && Number.isFinite(Number(text))
        ? { value: Number(text) }
        : { problem: 'Enter a number.' };
    case 'object': {
      const value = parseJson(text);
      return isObject(value) ? { value } : { problem: 'Enter a JSON object, such as {"a": 1}.' };
    }
    case 'array': {
      const value = parseJson(text);
      return Array.isArray(value) ? { value } : { problem: 'Enter a JSON array, such as ["a", "b"].' };
    }
    case 'label':
      return { value: readLabel(text) };
  }
}

/** JSON where it is some, else text, as in the command line; also digits that a number would lose. */
function readLabel(text: string): unknown {
  const value = parseJson(text);
  const isLost =
    typeof value === 'number' &&
    (!Number.isFinite(value) || (INTEGER.test(text.trim()) && !Number.isSafeInteger(value)));
  return value === undefined || isLost ? text : value;
}

/** Undefined: it is no JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** All that was entered: the values, and what is wrong by name of the input. */
export function readInputs(
  specs: Readonly<Record<string, InputSpec>>,
  texts: InputTexts,
): { readonly inputs: Record<string, unknown>; readonly problems: ReadonlyMap<string, string> } {
  const values: [string, unknown][] = [];
  const problems = new Map<string, string>();
  for (const [name, spec] of Object.entries(specs)) {
    const text = texts.get(name);
    if (text === undefined) {
      if (spec.required && spec.default === null) problems.set(name, 'This input is required.');
      continue;
    }
    const read = readInput(kindOf(spec.type), text);
    if ('problem' in read) problems.set(name, read.problem);
    else values.push([name, read.value]);
  }
  return { inputs: Object.fromEntries(values), problems };
}

/** The values as one would have entered them; of inputs that are not declared there is nothing to enter. */
export function toTexts(specs: Readonly<Record<string, InputSpec>>, inputs: object): InputTexts {
  const texts = new Map<string, string>();
  for (const [name, value] of Object.entries(inputs)) {
    if (!Object.hasOwn(specs, name) || value === null) continue;
    const kind = kindOf(specs[name]?.type ?? '');
    const isText =
      typeof value === 'string' &&
      (kind === 'text' || (kind === 'label' && value !== '' && readLabel(value) === value));
    texts.set(name, isText ? value : JSON.stringify(value, null, 2));
  }
  return texts;
}

/**
 * Sorts the lines of a refusal by what they speak of: an input, or a field of the form.
 * @param fields such as `priority`
 */
export function sortRefusal(
  lines: readonly string[],
  inputs: readonly string[],
  fields: readonly string[],
): {
  readonly inputs: ReadonlyMap<string, string>;
  readonly fields: ReadonlyMap<string, string>;
  readonly rest: readonly string[];
} {
  const byInput = new Map<string, string>();
  const byField = new Map<string, string>();
  const rest: string[] = [];
  // A name may begin with another one and a space.
  const longestFirst = inputs.toSorted((left, right) => right.length - left.length);
  for (const line of lines) {
    const input = longestFirst.find((name) => line.startsWith(`inputs.${name} `));
    const field = fields.find((name) => line.startsWith(`${name} `) || line.startsWith(`${name}.`));
    if (input !== undefined) byInput.set(input, line);
    else if (field !== undefined) byField.set(field, line);
    else rest.push(line);
  }
  return { inputs: byInput, fields: byField, rest };
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
