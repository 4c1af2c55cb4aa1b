import { composeJson, memberText, memberTexts } from '@longshore/common/json/json-text';
import type { JsonObject, JsonValue } from '@longshore/common/json/json-value';
import { clip } from '@longshore/common/json/text';
import type { InputSpec } from '../database/entities/definition.entity.js';
import { checkLimits, limitProblem } from './input-limits.js';
import { checkedTypeOf, typeProblem } from './input-types.js';

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

/** One line for each input whose default, limits and type contradict each other. */
export function checkSpecs(specs: ReadonlyMap<string, InputSpec>): string[] {
  return [...specs].flatMap(([name, spec]) => {
    const path = `input_specs.${name}`;
    const problems = checkLimits(path, spec);
    const text = memberText(spec, 'default') ?? 'null';
    const problem =
      problems.length > 0 || spec.default === null ? undefined : valueProblem(spec, spec.default, text);
    return problem === undefined ? problems : [...problems, `${path}.default ${problem}`];
  });
}

function valueProblem(spec: InputSpec, value: JsonValue, text: string): string | undefined {
  return typeProblem(spec.type, value) ?? limitProblem(spec, value, text);
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
  const texts = memberTexts(inputs);
  const members = [...texts].filter(([, text]) => text !== 'null');
  for (const [name, spec] of specs) {
    const isGiven = (given.get(name) ?? null) !== null;
    const value = isGiven ? given.get(name) : spec.default;
    if (value === undefined || value === null) {
      if (spec.required) problems.push(`inputs.${name} is required`);
      continue;
    }
    const text = (isGiven ? texts.get(name) : memberText(spec, 'default')) ?? 'null';
    const problem = valueProblem(spec, value, text);
    if (problem !== undefined) problems.push(`inputs.${name} ${problem}`);
    else if (!isGiven) members.push([name, text]);
  }
  return problems.length > 0 ? { problems } : { inputs: composeJson(members) };
}
