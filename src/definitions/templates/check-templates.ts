import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { fieldPath, itemPath, keyPath } from '../../common/http/validation/problems.js';
import type { InputSpec } from '../../database/entities/definition.entity.js';
import { checkedTypeOf, typeProblem } from '../input-specs.js';
import {
  readArgument,
  type FlagArgument,
  inputOf,
  inputReference,
  isKnown,
  KNOWN_REFERENCES,
  parseTemplate,
  showReference,
  type Reference,
} from './template-text.js';
import { codeProblems, type Alternatives, type Word } from './code-words.js';

type Specs = ReadonlyMap<string, InputSpec>;

/** One line for each word, variable or folder of a definition that refers to what its runs do not have, or makes code of an input. */
export function checkTemplates(options: JsonObject | null, specs: Specs): string[] {
  if (options === null) return [];
  const words = ['command', 'args'].flatMap((name) => {
    const entries = options[name];
    return Array.isArray(entries)
      ? entries.map((entry, at) => toWords(itemPath(name, at), entry, specs))
      : [];
  });
  const env = isJsonObject(options['env']) ? Object.entries(options['env']) : [];
  const variables = env.map(([name, text]) => toWords(keyPath('env', name), text, specs));
  const mounts = Array.isArray(options['mounts']) ? options['mounts'] : [];
  const folders = mounts.flatMap((mount, at) => {
    const subPath = isJsonObject(mount) ? mount['sub_path'] : undefined;
    return subPath === undefined
      ? []
      : [toWords(fieldPath(itemPath('mounts', at), 'sub_path'), subPath, specs)];
  });
  const unknown = [...words, ...variables, ...folders].flatMap(({ problem }) => problem ?? []);
  // A reference that is not replaced has no value that could become code.
  if (unknown.length > 0) return unknown;
  const start = Array.isArray(options['command']) ? 'program' : 'argument';
  return codeProblems(
    words.map(({ alternatives }) => alternatives),
    start,
  );
}

interface Entry {
  readonly alternatives: Alternatives;
  readonly problem: string | undefined;
}

function toWords(path: string, entry: JsonObject[string], specs: Specs): Entry {
  const argument = readArgument(entry);
  if (typeof argument !== 'string') return flagWords(path, argument, specs);
  const parts = parseTemplate(argument);
  const references = parts.filter((part) => typeof part !== 'string');
  const isOptional = references.some((reference) => mayBeAbsent(reference, specs));
  return {
    alternatives: [[{ path, parts }], ...(isOptional ? [[]] : [])],
    problem: references.flatMap((reference) => describeUnknown(path, reference, specs) ?? [])[0],
  };
}

/** A flag: what it may become by the type of its input. */
function flagWords(path: string, { flag, input, join }: FlagArgument, specs: Specs): Entry {
  const value = inputReference(input);
  const alone: readonly Word[] = [{ path, parts: [flag] }];
  const once: readonly Word[] =
    join === undefined ? [...alone, { path, parts: [value] }] : [{ path, parts: [flag + join, value] }];
  const type = specs.get(input)?.type ?? '';
  const isAny = checkedTypeOf(type) === undefined;
  const isBoolean = typeProblem(type, true) === undefined;
  const isArray = typeProblem(type, []) === undefined;
  const isOptional = isBoolean || isArray || mayBeAbsent(value, specs);
  return {
    alternatives: [
      ...(isOptional ? [[]] : []),
      ...(isBoolean ? [alone] : []),
      ...(isBoolean && !isAny ? [] : [once]),
      ...(isArray ? [[...once, ...once]] : []),
    ],
    problem: describeUnknown(`${path}.input`, value, specs),
  };
}

function describeUnknown(path: string, reference: Reference, specs: Specs): string | undefined {
  const text = showReference(reference);
  if (!isKnown(reference)) {
    return `${path}: ${text}: unknown, only ${KNOWN_REFERENCES} are replaced; $\${ is a literal \${`;
  }
  const input = inputOf(reference);
  return input === undefined || specs.has(input) ? undefined : `${path}: ${text}: no such input`;
}

function mayBeAbsent(reference: Reference, specs: Specs): boolean {
  const input = inputOf(reference);
  const spec = input === undefined ? undefined : specs.get(input);
  return spec !== undefined && !spec.required && spec.default === null;
}
