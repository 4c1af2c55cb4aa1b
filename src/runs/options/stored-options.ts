import { capabilitiesOfOption } from '@longshore/common/capabilities';
import type { JsonObject, JsonValue } from '@longshore/common/json/json-value';
import type { BoundRun, OptionDeclaration } from './option-kinds.js';
import { OPTION_DECLARATIONS } from './option-declarations.js';
import { applyDecorators, type Type } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { ValidateBy } from 'class-validator';
import { OptionalField } from '../../common/http/validation/dto-decorators.js';

type Declarations = typeof OPTION_DECLARATIONS;
type ValueOf<N extends keyof Declarations> = Declarations[N] extends OptionDeclaration<infer T> ? T : never;

/** The options of a request; null and absent ones are not given. */
export type RequestedOptions = { readonly [N in keyof Declarations]?: ValueOf<N> | null | undefined };

/** The options of a definition, as its request has them: `args` may have entries of another form. */
export type DefinedOptions = Omit<RequestedOptions, 'args'> & {
  readonly args?: readonly (string | object)[] | null | undefined;
};

/** The options as answers show them. */
export type ShownOptions = { readonly [N in keyof Declarations]?: ValueOf<N> | null };

/** The declarations by name. */
export const OPTIONS: readonly (readonly [name: string, option: OptionDeclaration<JsonValue>])[] =
  Object.entries<OptionDeclaration<JsonValue>>(Object(OPTION_DECLARATIONS));

const UNSET = Object.fromEntries(OPTIONS.map(([name, { unset }]) => [name, unset]));
const BOUND = OPTIONS.filter(([, option]) => option.bind !== undefined);
const CLAIMED = OPTIONS.flatMap(([name, { texts }]) => (texts.claim === undefined ? [] : [name]));

/** The document that is stored of the options of a request: what is given, not empty and not the default. Null: nothing is. */
export function pickOptions(request: DefinedOptions): JsonObject | null {
  const given = OPTIONS.flatMap(([name, option]) => {
    const value = memberOf(request, name);
    if (!isSet(value) || value === option.unset) return [];
    return [[name, option.store?.(value) ?? value] as const];
  });
  return given.length === 0 ? null : Object.fromEntries(given);
}

/**
 * The options of a run of a definition: each as the run gives it, else as the definition does, or both merged.
 * @param definition the stored document
 * @returns the options, or what is wrong with them: one line per option
 */
export function mergeOptions(
  definition: JsonObject | null,
  run: RequestedOptions,
): { readonly merged: RequestedOptions } | { readonly problems: readonly string[] } {
  const merged = Object.fromEntries(
    OPTIONS.map(([name, option]) => {
      const [base, own] = [memberOf(definition ?? {}, name), memberOf(run, name)];
      if (base === undefined || own === undefined) return [name, own ?? base];
      return [name, option.merge?.(base, own) ?? own];
    }),
  );
  const problems = OPTIONS.flatMap(([name, option]) => {
    const value = merged[name];
    return (value === undefined ? undefined : option.problem?.(value, merged, name)) ?? [];
  });
  return problems.length > 0 ? { problems } : { merged: Object(merged) };
}

/** The options of a request for the run that it creates. @throws InvalidRequest for a reference that the run does not have */
export function bindOptions<T extends RequestedOptions>(request: T, run: BoundRun): T {
  const bound = BOUND.flatMap(([name, option]) => {
    const value = memberOf(request, name);
    return value === undefined ? [] : [[name, option.bind?.(value, run, name) ?? value] as const];
  });
  return bound.length === 0 ? request : { ...request, ...Object.fromEntries(bound) };
}

/** What answers show of a stored document: every option, with its default where it is not set. */
export function showOptions(stored: JsonObject | null): ShownOptions {
  return Object({ ...UNSET, ...stored });
}

/** The names of the secrets that a run uses, each once. */
export function secretNamesOf({
  secrets,
  secrets_from: maps,
  files,
  image_pull_secret: login,
}: RequestedOptions): string[] {
  const ofFiles = Object.values(files ?? {}).map((file) => file.secret);
  const ofMaps = (maps ?? []).map(({ secret }) => secret);
  const named = [...Object.values(secrets ?? {}), ...ofMaps, ...ofFiles, login];
  return [...new Set(named.filter((name) => typeof name === 'string'))];
}

/** The document as lists of runs show it. */
export function listOptions(stored: JsonObject | null): JsonObject | null {
  if (stored === null) return null;
  const entries = OPTIONS.flatMap(([name, option]) => {
    const value = stored[name];
    return value === undefined ? [] : [[name, option.list?.(value) ?? value] as const];
  });
  return Object.fromEntries(entries);
}

/** What the answer of a claim has of a stored document. */
export function claimOptions(stored: JsonObject | null): ShownOptions {
  if (stored === null) return {};
  return Object.fromEntries(CLAIMED.filter((name) => name in stored).map((name) => [name, stored[name]]));
}

/** The capabilities that a worker needs for the options of a stored document, each once. */
export function neededCapabilities(stored: JsonObject | null): readonly string[] {
  if (stored === null) return [];
  const needed = OPTIONS.flatMap(([name, { capabilities = [] }]) => {
    const value = stored[name];
    return value === undefined ? [] : capabilitiesOfOption(capabilities, value);
  });
  return [...new Set(needed)];
}

/** Undefined: absent or null. */
function memberOf(options: object, name: string): JsonValue | undefined {
  return Reflect.get(options, name) ?? undefined;
}

function isSet(value: JsonValue | undefined): value is JsonValue {
  if (value === undefined) return false;
  return typeof value !== 'object' || value === null || Object.keys(value).length > 0;
}

/** A class whose fields are the options of a request. */
export const RequestedOptionFields = classWith<RequestedOptions>((option) => {
  const { field, texts, example } = option;
  // The checks apply in the reverse order of the decorators.
  return applyDecorators(
    CheckAmongOthers(option),
    field,
    OptionalField(),
    ApiPropertyOptional({ description: texts.request, example }),
  );
});

/** A class whose fields are the options as answers show them. */
export const ShownOptionFields = classWith<ShownOptions>(({ schema, texts, unset }) =>
  ApiProperty({ ...schema, description: texts.answer, ...(unset === null && { nullable: true }) }),
);

/** A class whose fields are the options in the answer of a claim. */
export const ClaimedOptionFields = classWith<ShownOptions>(({ schema, texts }) =>
  texts.claim === undefined ? undefined : ApiPropertyOptional({ ...schema, description: texts.claim }),
);

function classWith<T>(
  decorate: (option: OptionDeclaration<JsonValue>) => PropertyDecorator | undefined,
): Type<Partial<T>> {
  // oxlint-disable-next-line typescript/no-extraneous-class -- the loop declares its fields
  class OptionFields {}
  for (const [name, option] of OPTIONS) decorate(option)?.(OptionFields.prototype, name);
  return OptionFields;
}

/** What the option must be beside the other options of the request. */
function CheckAmongOthers(option: OptionDeclaration<JsonValue>): PropertyDecorator {
  if (option.problem === undefined) return () => undefined;
  const problemOf = (value: JsonValue, all: object = {}): string | undefined =>
    option.problem?.(value, all, '$property');
  return ValidateBy({
    name: 'isAmongOthers',
    validator: {
      validate: (value: JsonValue, args) => problemOf(value, args?.object) === undefined,
      defaultMessage: (args) => problemOf(args?.value, args?.object) ?? '',
    },
  });
}
