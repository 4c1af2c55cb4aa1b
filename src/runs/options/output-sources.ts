import { composeJson, memberTexts, memberText, stringifyJson } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject, type JsonValue } from '@longshore/common/json/json-value';
import { keyPath } from '../../common/http/validation/problems.js';
import type { Dependency } from '../machine/run.js';

/** The value of an input that is read from outputs of a run, or of a group, when it has ended. */
export interface OutputSource {
  readonly parentId: string;
  readonly isGroup: boolean;
  /** Keys of the JSON pointer. */
  readonly path: readonly string[];
  /** As exact JSON; undefined: none. */
  readonly fallback: string | undefined;
}

const KEY = '$from';
const POINTER = /^(?:\/(?:[^~/]|~[01])*)*$/;
const INDEX = /^(?:0|[1-9]\d*)$/;

/** Whether the value of an input is to be read from outputs, in a run that waits for others. */
export function isSource(value: JsonValue | undefined): value is JsonObject {
  return isJsonObject(value) && Object.keys(value).length === 1 && KEY in value;
}

/** Whether values of the inputs are to be read from outputs. */
export function hasSources(inputs: JsonValue | undefined): boolean {
  return isJsonObject(inputs) && Object.values(inputs).some(isSource);
}

/**
 * The inputs with runs in the place of what their sources name otherwise.
 * @param key under which sources name it
 * @param runOf the id of the run; undefined: the source stays as it is
 */
export function nameRuns(
  inputs: JsonObject,
  key: 'ref' | 'group',
  runOf: (named: JsonValue | undefined, input: string) => string | undefined,
): JsonObject {
  return composeJson(
    [...memberTexts(inputs)].map(([name, text]): readonly [string, string] => {
      const value = inputs[name];
      const source = isSource(value) ? value[KEY] : undefined;
      const run = isJsonObject(source) && key in source ? runOf(source[key], name) : undefined;
      if (!isJsonObject(source) || run === undefined) return [name, text];
      const members = [...memberTexts(source)].filter(([member]) => member !== key);
      return [name, stringifyJson({ [KEY]: composeJson([['run', JSON.stringify(run)], ...members]) })];
    }),
  );
}

/** The source of an input, or what is wrong with it. */
export function readSource(value: JsonObject): OutputSource | { readonly problem: string } {
  const given = value[KEY];
  if (!isJsonObject(given)) return { problem: 'must be an object' };
  const { run, group, output, default: _default, ...unknown } = given;
  const [other] = Object.keys(unknown);
  if (other !== undefined) return { problem: `must have no field ${other}` };
  const parentId = run ?? group;
  if (typeof parentId !== 'string' || (run !== undefined && group !== undefined))
    return { problem: 'must have either run or group: an id' };
  if (typeof output !== 'string' || !POINTER.test(output))
    return { problem: 'must have output: a JSON pointer, such as /accuracy' };
  const path = output
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  return { parentId, isGroup: run === undefined, path, fallback: memberText(given, 'default') };
}

/** One line for each source that is none, or is not of a dependency. */
export function sourceProblems(inputs: JsonObject, dependsOn: readonly Dependency[]): string[] {
  return Object.entries(inputs).flatMap(([name, value]) => {
    if (!isSource(value)) return [];
    const path = `${keyPath('inputs', name)}.${KEY}`;
    const source = readSource(value);
    if ('problem' in source) return [`${path} ${source.problem}`];
    const isKnown = dependsOn.some(
      ({ parentId, isGroup }) => parentId === source.parentId && isGroup === source.isGroup,
    );
    return isKnown ? [] : [`${path}: '${source.parentId}' is not in depends_on`];
  });
}

/** The text of the value at a path in exact JSON; undefined: there is none. */
export function textAt(value: JsonValue, path: readonly string[]): string | undefined {
  const [key, ...rest] = path;
  if (key === undefined) return stringifyJson(value);
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value) && !INDEX.test(key)) return undefined;
  if (rest.length === 0) return memberText(value, key);
  const inner = Array.isArray(value)
    ? value[Number(key)]
    : Object.hasOwn(value, key)
      ? value[key]
      : undefined;
  return inner === undefined ? undefined : textAt(inner, rest);
}

/** The inputs with their sources replaced. @param textOf the value of a source as exact JSON, or why there is none */
export function supplyInputs(
  inputs: JsonObject,
  textOf: (source: OutputSource) => { readonly text: string } | { readonly problem: string },
): { readonly inputs: JsonObject } | { readonly problem: string } {
  const problems: string[] = [];
  const members = [...memberTexts(inputs)].map(([name, text]): readonly [string, string] => {
    const value = inputs[name];
    if (!isSource(value)) return [name, text];
    const source = readSource(value);
    const found = 'problem' in source ? source : textOf(source);
    if ('text' in found) return [name, found.text];
    problems.push(`inputs.${name}: ${found.problem}`);
    return [name, 'null'];
  });
  const [problem] = problems;
  return problem === undefined ? { inputs: composeJson(members) } : { problem };
}
