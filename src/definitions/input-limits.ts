import { compareNumbers, isSameJson } from '@longshore/common/json/canonical-json';
import { memberText, memberTexts } from '@longshore/common/json/json-text';
import type { JsonValue } from '@longshore/common/json/json-value';
import { clip, lengthWithin } from '@longshore/common/json/text';
import type { InputSpec } from '../database/entities/definition.entity.js';
import { typeProblem } from './input-types.js';

/** Longest list of allowed values in a message, in characters. */
const MAX_SHOWN = 200;

/** Why a value is not allowed by the limits of its input, to follow its name; undefined: it is. @param text the value as exact JSON */
export function limitProblem(spec: InputSpec, value: JsonValue, text: string): string | undefined {
  return rangeProblem(spec, value, text) ?? enumProblem(spec, text);
}

/** One line for each limit that does not fit the type or the other limits of its input. */
export function checkLimits(path: string, spec: InputSpec): string[] {
  const { type, minimum, maximum, max_length: maxLength } = spec;
  const problems: string[] = [];
  for (const [name, limit] of Object.entries({ minimum, maximum })) {
    if (limit !== undefined && typeProblem(type, 0) !== undefined) {
      problems.push(`${path}.${name} needs the type integer or number`);
    }
  }
  if (maxLength !== undefined && typeProblem(type, '') !== undefined) {
    problems.push(`${path}.max_length needs the type string`);
  }
  const [least, most] = [memberText(spec, 'minimum'), memberText(spec, 'maximum')];
  if (least !== undefined && most !== undefined && compareNumbers(least, most) > 0) {
    problems.push(`${path}.minimum must be at most ${path}.maximum`);
  }
  const texts = [...memberTexts(spec.enum ?? []).values()];
  const values = spec.enum ?? [];
  return problems.concat(
    values.flatMap((value, at) => {
      const problem = typeProblem(type, value) ?? rangeProblem(spec, value, texts[at] ?? '');
      return problem === undefined ? [] : [`${path}.enum[${at}] ${problem}`];
    }),
  );
}

function rangeProblem(spec: InputSpec, value: JsonValue, text: string): string | undefined {
  if (typeof value === 'number') {
    const [least, most] = [memberText(spec, 'minimum'), memberText(spec, 'maximum')];
    if (least !== undefined && compareNumbers(text, least) < 0) return `must be at least ${least}`;
    if (most !== undefined && compareNumbers(text, most) > 0) return `must be at most ${most}`;
  }
  const { max_length: max } = spec;
  return typeof value === 'string' && max !== undefined && !lengthWithin(value, 0, max)
    ? `must have at most ${max} characters`
    : undefined;
}

function enumProblem(spec: InputSpec, text: string): string | undefined {
  if (spec.enum === undefined) return undefined;
  const allowed = [...memberTexts(spec.enum).values()];
  return allowed.some((each) => isSameJson(each, text))
    ? undefined
    : `must be one of ${clip(allowed.join(', '), MAX_SHOWN)}`;
}
