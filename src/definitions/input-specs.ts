import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';

/** What a definition says of one input. */
export interface InputSpec {
  /** One of the checked types or an alias; any other text is a label. */
  readonly type: string;
  readonly required: boolean;
  /** null: no default. */
  readonly default: JsonValue;
}

interface CheckedType {
  /** The type in words, to follow "must be". */
  readonly words: string;
  readonly holds: (value: JsonValue) => boolean;
}

const STRING: CheckedType = { words: 'a string', holds: (value) => typeof value === 'string' };
const INTEGER: CheckedType = { words: 'an integer', holds: (value) => Number.isInteger(value) };
const NUMBER: CheckedType = { words: 'a number', holds: (value) => typeof value === 'number' };
const BOOLEAN: CheckedType = { words: 'a boolean', holds: (value) => typeof value === 'boolean' };
const OBJECT: CheckedType = { words: 'an object', holds: isJsonObject };
const ARRAY: CheckedType = { words: 'an array', holds: (value) => Array.isArray(value) };

const CHECKED_TYPES: ReadonlyMap<string, CheckedType> = new Map([
  ['string', STRING],
  ['str', STRING],
  ['integer', INTEGER],
  ['int', INTEGER],
  ['number', NUMBER],
  ['float', NUMBER],
  ['boolean', BOOLEAN],
  ['bool', BOOLEAN],
  ['object', OBJECT],
  ['dict', OBJECT],
  ['array', ARRAY],
  ['list', ARRAY],
]);

/** What is wrong with a value for a type, as words to follow its name; undefined when it fits or the type is a label. */
export function typeProblem(type: string, value: JsonValue): string | undefined {
  const checked = CHECKED_TYPES.get(type);
  return !checked || checked.holds(value) ? undefined : `must be ${checked.words}`;
}

/** One line per default that does not have its own type. */
export function checkDefaults(specs: ReadonlyMap<string, InputSpec>): string[] {
  return [...specs].flatMap(([name, spec]) => {
    const problem = spec.default === null ? undefined : typeProblem(spec.type, spec.default);
    return problem === undefined ? [] : [`input_specs.${name}.default ${problem}`];
  });
}

/**
 * Checks inputs against the specs and fills in defaults. null for a declared input counts as absent. Without any
 * specs every input is taken as it is.
 * @returns the complete inputs, or one line per input that does not fit
 */
export function completeInputs(
  specs: ReadonlyMap<string, InputSpec>,
  inputs: JsonObject,
): { readonly inputs: JsonObject } | { readonly problems: readonly string[] } {
  if (specs.size === 0) return { inputs };
  const given = new Map(Object.entries(inputs));
  const problems = [...given.keys()]
    .filter((name) => !specs.has(name))
    .map((name) => `inputs.${name} is not a declared input`);
  const complete: [string, JsonValue][] = [];
  for (const [name, spec] of specs) {
    const value = given.get(name) ?? spec.default;
    const problem = value === null ? absenceProblem(spec) : typeProblem(spec.type, value);
    if (problem !== undefined) problems.push(`inputs.${name} ${problem}`);
    else if (value !== null) complete.push([name, value]);
  }
  return problems.length > 0 ? { problems } : { inputs: Object.fromEntries(complete) };
}

function absenceProblem({ required }: InputSpec): string | undefined {
  return required ? 'is required' : undefined;
}
