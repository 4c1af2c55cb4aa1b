import { composeJson, memberText, memberTexts } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { clip } from '@longshore/common/json/text';
import type { InputSpec } from '../database/entities/definition.entity.js';

interface CheckedType {
  readonly names: readonly string[];
  /** Follows "must be" in a message. */
  readonly description: string;
  readonly accepts: (value: JsonValue) => boolean;
}

const CHECKED_TYPES: readonly CheckedType[] = [
  { names: ['string', 'str'], description: 'a string', accepts: (value) => typeof value === 'string' },
  { names: ['integer', 'int'], description: 'an integer', accepts: Number.isInteger },
  { names: ['number', 'float'], description: 'a number', accepts: (value) => typeof value === 'number' },
  { names: ['boolean', 'bool'], description: 'a boolean', accepts: (value) => typeof value === 'boolean' },
  { names: ['object', 'dict'], description: 'an object', accepts: isJsonObject },
  { names: ['array', 'list'], description: 'an array', accepts: Array.isArray },
];

/** Before the name of a type that is meant as a label. */
const LABEL = 'label:';

/** A text for each input whose type is neither a checked one nor marked as a label: it may be misspelled. */
export function typeWarnings(specs: ReadonlyMap<string, InputSpec>): string[] {
  return [...specs].flatMap(([name, { type }]) =>
    checkedTypeOf(type) === undefined && !type.startsWith(LABEL)
      ? [
          `input_specs.${clip(name, 128)}.type ${JSON.stringify(type)} is none of the checked types: its values are not checked`,
        ]
      : [],
  );
}

function checkedTypeOf(type: string): CheckedType | undefined {
  return CHECKED_TYPES.find(({ names }) => names.includes(type.toLowerCase()));
}

/** Why a value does not fit a type, to follow its name; undefined if it fits or the type is a label: none of the checked ones. */
export function typeProblem(type: string, value: JsonValue): string | undefined {
  const checked = checkedTypeOf(type);
  return !checked || checked.accepts(value) ? undefined : `must be ${checked.description}`;
}

/** One line for each default that does not have its own type. */
export function checkDefaults(specs: ReadonlyMap<string, InputSpec>): string[] {
  return [...specs].flatMap(([name, spec]) => {
    const problem = spec.default === null ? undefined : typeProblem(spec.type, spec.default);
    return problem === undefined ? [] : [`input_specs.${name}.default ${problem}`];
  });
}

/**
 * Checks inputs (null: absent) and appends defaults, both with their exact text; one line for each problem. Without specs
 * it accepts all inputs.
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
  const members = [...memberTexts(inputs)].filter(([, text]) => text !== 'null');
  for (const [name, spec] of specs) {
    const isGiven = (given.get(name) ?? null) !== null;
    const value = isGiven ? given.get(name) : spec.default;
    if (value === undefined || value === null) {
      if (spec.required) problems.push(`inputs.${name} is required`);
      continue;
    }
    const problem = typeProblem(spec.type, value);
    if (problem !== undefined) problems.push(`inputs.${name} ${problem}`);
    else if (!isGiven) members.push([name, memberText(spec, 'default') ?? 'null']);
  }
  return problems.length > 0 ? { problems } : { inputs: composeJson(members) };
}
