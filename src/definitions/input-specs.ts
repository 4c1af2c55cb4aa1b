import { isJsonObject, type JsonValue, type JsonObject } from '@longshore/common/json/json-value';
import { compareNumbers, isSameJson } from '@longshore/common/json/canonical-json';
import { memberText, memberTexts, composeJson } from '@longshore/common/json/json-text';
import { clip, lengthWithin } from '@longshore/common/json/text';
import type { InputSpec } from '../database/entities/definition.entity.js';
import { isRunId } from '../runs/machine/new-id.js';
import { referenceIn } from '../runs/options/artifact-references.js';

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
  {
    names: ['file'],
    description:
      'the id of a file, or {"$artifact": {"file": ID}} or {"$artifact": {"run": ID, "name": NAME}}',
    accepts: isFile,
  },
];

function isFileType(type: string): boolean {
  return checkedTypeOf(type)?.accepts === isFile;
}

/** Whether a value names a file: by its id, or as inputs refer to one. */
function isFile(value: JsonValue): boolean {
  const reference = typeof value === 'string' ? { file: value } : referenceIn(value);
  if (reference === undefined) return false;
  return isRunId('file' in reference ? reference.file : reference.run);
}

/** The type of this name; undefined: it is a label. */
export function checkedTypeOf(type: string): CheckedType | undefined {
  return CHECKED_TYPES.find(({ names }) => names.includes(type.toLowerCase()));
}

/**
 * Why a value does not fit a type, to follow its name; undefined if it fits or the type is a label: none of the checked ones. What
 * refers to a file counts as a string.
 */
export function typeProblem(type: string, value: JsonValue): string | undefined {
  const checked = checkedTypeOf(type);
  const counted = isFileType(type) || referenceIn(value) === undefined ? value : '';
  return !checked || checked.accepts(counted) ? undefined : `must be ${checked.description}`;
}

/** The JSON text of a value as it is stored: where a file is declared, its id refers to it. */
export function storedText(type: string, text: string): string {
  if (!isFileType(type) || !text.startsWith('"')) return text;
  return JSON.stringify({ $artifact: { file: String(JSON.parse(text)) } });
}

/** Longest list of allowed values in a message, in characters. */
const MAX_SHOWN = 200;

/** Why a value is not allowed by the limits of its input, to follow its name; undefined: it is. @param text the value as exact JSON */
function limitProblem(spec: InputSpec, value: JsonValue, text: string): string | undefined {
  return rangeProblem(spec, value, text) ?? enumProblem(spec, text);
}

/** One line for each limit that does not fit the type or the other limits of its input. */
function checkLimits(path: string, spec: InputSpec): string[] {
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
  if (spec.enum !== undefined && isFileType(type)) problems.push(`${path}.enum is not for the type file`);
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
 * @param isLater whether a value is known only later; it is not checked
 * @returns `filled`: the names of the inputs that have their defaults
 */
export function completeInputs(
  specs: ReadonlyMap<string, InputSpec>,
  inputs: JsonObject,
  isLater: (value: JsonValue) => boolean = () => false,
):
  | { readonly inputs: JsonObject; readonly filled: readonly string[] }
  | { readonly problems: readonly string[] } {
  if (specs.size === 0) return { inputs, filled: [] };
  const given = new Map(Object.entries(inputs));
  const problems = [...given.keys()]
    .filter((name) => !specs.has(name))
    .map((name) => `inputs.${name} is not a declared input`);
  const texts = memberTexts(inputs);
  const members = new Map([...texts].filter(([, text]) => text !== 'null'));
  const filled: string[] = [];
  for (const [name, spec] of specs) {
    const isGiven = (given.get(name) ?? null) !== null;
    const value = isGiven ? given.get(name) : spec.default;
    if (value === undefined || value === null) {
      if (spec.required) problems.push(`inputs.${name} is required`);
      continue;
    }
    const text = (isGiven ? texts.get(name) : memberText(spec, 'default')) ?? 'null';
    const problem = isLater(value) ? undefined : valueProblem(spec, value, text);
    if (problem !== undefined) problems.push(`inputs.${name} ${problem}`);
    else members.set(name, storedText(spec.type, text));
    if (!isGiven) filled.push(name);
  }
  return problems.length > 0 ? { problems } : { inputs: composeJson(members), filled };
}
