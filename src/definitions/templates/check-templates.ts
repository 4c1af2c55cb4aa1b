import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { fieldPath, itemPath, keyPath } from '../../common/http/validation/problems.js';
import type { InputSpec } from '../../database/entities/definition.entity.js';
import { checkedTypeOf, typeProblem } from '../input-specs.js';
import {
  readArgument,
  type FlagArgument,
  foreignReference,
  inputOf,
  inputReference,
  isKnown,
  ANY_FACTS,
  knownReferences,
  parseTemplate,
  showReference,
  type Reference,
} from './template-text.js';
import { readCommandLine, type Alternatives, type Word } from './code-words.js';
import { CODE_VARIABLES } from './interpreters.js';

type Specs = ReadonlyMap<string, InputSpec>;

/** References of a definition. */
const MAX_REFERENCES = 1000;

/**
 * One line for each word, variable or folder of a definition that refers to what its runs do not have, or makes code of an input.
 * @param facts what its runs may have beside inputs
 */
export function checkTemplates(
  options: JsonObject | null,
  specs: Specs,
  facts: ReadonlySet<string> = ANY_FACTS,
): string[] {
  if (options === null) return [];
  const scope = { specs, facts };
  const words = ['command', 'args'].flatMap((name) => {
    const entries = options[name];
    return Array.isArray(entries)
      ? entries.map((entry, at) => toWords(itemPath(name, at), entry, scope))
      : [];
  });
  const env = isJsonObject(options['env']) ? Object.entries(options['env']) : [];
  const variables = env.map(([name, text]) => toWords(keyPath('env', name), text, scope));
  const mounts = Array.isArray(options['mounts']) ? options['mounts'] : [];
  const folders = mounts.flatMap((mount, at) => {
    const subPath = isJsonObject(mount) ? mount['sub_path'] : undefined;
    return subPath === undefined
      ? []
      : [toWords(fieldPath(itemPath('mounts', at), 'sub_path'), subPath, scope)];
  });
  const entries = [...words, ...variables, ...folders];
  const count = entries.reduce((sum, { references }) => sum + references, 0);
  if (count > MAX_REFERENCES) {
    return [`command, args, env and mounts must have at most ${MAX_REFERENCES} references, not ${count}`];
  }
  const start = Array.isArray(options['command']) ? 'program' : 'argument';
  const isRead = words.some(({ references, foreign }) => references > 0 || foreign !== undefined);
  const { problems, code } = readCommandLine(
    isRead ? words.map(({ alternatives }) => alternatives) : [],
    start,
  );
  // In code, `${...}` of another form is the program's own.
  const unknown = entries.flatMap(({ path, problem, foreign }) => {
    if (problem !== undefined) return problem;
    return foreign === undefined || code.has(path) ? [] : [describeOther(path, foreign, scope)];
  });
  // A reference that is not replaced has no value that could become code.
  if (unknown.length > 0) return unknown;
  const executed = variables.filter(({ path, references }) => references > 0 && CODE_PATHS.has(path));
  return [
    ...problems,
    ...executed.map(({ path }) => `${path}: an input would become code: use a variable of another name`),
  ];
}

/** Where the variables stand whose value is code. */
const CODE_PATHS: ReadonlySet<string> = new Set(CODE_VARIABLES.map((name) => keyPath('env', name)));

/** What texts may refer to. */
interface Scope {
  readonly specs: Specs;
  readonly facts: ReadonlySet<string>;
}

interface Entry {
  readonly path: string;
  /** How many references it has. */
  readonly references: number;
  /** The first `${...}` that is none. */
  readonly foreign?: string | undefined;
  readonly alternatives: Alternatives;
  readonly problem: string | undefined;
}

function toWords(path: string, entry: JsonObject[string], scope: Scope): Entry {
  const argument = readArgument(entry);
  if (typeof argument !== 'string') return flagWords(path, argument, scope);
  const parts = parseTemplate(argument);
  const references = parts.filter((part) => typeof part !== 'string');
  const isOptional = references.some((reference) => mayBeAbsent(reference, scope));
  const unknown = references.find((reference) => describeUnknown(path, reference, scope) !== undefined);
  return {
    path,
    references: references.length,
    foreign: foreignReference(argument),
    alternatives: [[{ path, parts }], ...(isOptional ? [[]] : [])],
    problem: unknown && describeUnknown(path, unknown, scope),
  };
}

/** A flag: what it may become by the type of its input. */
function flagWords(path: string, { flag, input, join }: FlagArgument, scope: Scope): Entry {
  const value = inputReference(input);
  const alone: readonly Word[] = [{ path, parts: [flag] }];
  const once: readonly Word[] =
    join === undefined ? [...alone, { path, parts: [value] }] : [{ path, parts: [flag + join, value] }];
  const type = scope.specs.get(input)?.type ?? '';
  const isAny = checkedTypeOf(type) === undefined;
  const isBoolean = typeProblem(type, true) === undefined;
  const isArray = typeProblem(type, []) === undefined;
  const isOptional = isBoolean || isArray || mayBeAbsent(value, scope);
  return {
    path,
    references: 1,
    alternatives: [
      ...(isOptional ? [[]] : []),
      ...(isBoolean ? [alone] : []),
      ...(isBoolean && !isAny ? [] : [once]),
      ...(isArray ? [[...once, ...once]] : []),
    ],
    problem: describeUnknown(`${path}.input`, value, scope),
  };
}

function describeUnknown(path: string, reference: Reference, scope: Scope): string | undefined {
  const text = showReference(reference);
  if (!isKnown(reference, scope.facts)) return describeOther(path, text, scope);
  const input = inputOf(reference);
  return input === undefined || scope.specs.has(input) ? undefined : `${path}: ${text}: no such input`;
}

function describeOther(path: string, text: string, { facts }: Scope): string {
  return `${path}: ${text}: unknown, only ${knownReferences(facts)} are replaced; $\${ is a literal \${`;
}

/** Every run has an id only. */
function mayBeAbsent(reference: Reference, { specs }: Scope): boolean {
  const input = inputOf(reference);
  if (input === undefined) return reference.name !== 'run.id';
  const spec = specs.get(input);
  return spec !== undefined && !spec.required && spec.default === null;
}
