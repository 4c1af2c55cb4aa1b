import {
  getMetadataStorage,
  IS_OPTIONAL,
  type ValidationArguments,
  type ValidatorConstraintInterface,
} from 'class-validator';
import { clip } from '@longshore/common/json/text';
import { itemPath } from './problems.js';
import { TransformationType, type TransformFnParams } from 'class-transformer';
import { defaultMetadataStorage as storage } from 'class-transformer/cjs/storage.js';
import { NULL_TO_INITIAL } from './dto-decorators.js';
import { passByReference } from './free-form-json.js';

/** Longest message, in characters; a message may repeat the value. */
export const LONGEST_MESSAGE = 500;

export type DtoClass = new () => object;

type ValidationMetadata = ReturnType<
  ReturnType<typeof getMetadataStorage>['getTargetValidationMetadatas']
>[number];

/** One constraint of a field. */
export interface FieldCheck {
  readonly holds: (value: unknown, owner: object) => boolean;
  /** The message about a value for which it does not hold. */
  readonly describe: (value: unknown, owner: object, path: string) => string;
}

/** What class-validator's decorators declare for one field. */
export interface DeclaredField {
  /** In the order of the decorators in the source. */
  readonly checks: readonly FieldCheck[];
  readonly isOptional: boolean;
  /** Whether it has @ValidateNested. */
  readonly isNested: boolean;
}

/** A class uses something that a compiled plan does not support; Nest's ValidationPipe reads it. */
export class UnsupportedByPlan extends Error {}

/**
 * The fields that a class and its ancestors declare through class-validator.
 * @throws UnsupportedByPlan when one of them has a validation other than @IsOptional and synchronous constraints
 */
export function declaredFields(type: DtoClass): ReadonlyMap<string, DeclaredField> {
  const fields = new Map<string, DeclaredField>();
  for (const entry of getMetadataStorage().getTargetValidationMetadatas(type, '', false, false)) {
    const field = fields.get(entry.propertyName) ?? { checks: [], isOptional: false, isNested: false };
    fields.set(entry.propertyName, extend(field, entry, type));
  }
  return fields;
}

function extend(field: DeclaredField, entry: ValidationMetadata, type: DtoClass): DeclaredField {
  if (entry.validateIf === undefined) {
    // The values of class-validator's ValidationTypes, which it does not export.
    switch (entry.type) {
      case 'whitelistValidation':
        return field;
      case 'nestedValidation':
        return { ...field, isNested: true };
      case 'conditionalValidation':
        if (entry.name === IS_OPTIONAL) return { ...field, isOptional: true };
        break;
      case 'customValidation':
      case 'isDefined':
        // A field's decorators register from the bottom up.
        return { ...field, checks: [...checksOf(entry, type.name), ...field.checks] };
    }
  }
  throw new UnsupportedByPlan(`${type.name}.${entry.propertyName}: ${entry.type}`);
}

function checksOf(entry: ValidationMetadata, targetName: string): FieldCheck[] {
  const { constraints, constraintCls, each, message: given, propertyName: property } = entry;
  const argumentsFor = (object: object, value: unknown): ValidationArguments => {
    return { targetName, property, object, value, constraints };
  };
  return getMetadataStorage()
    .getTargetValidatorConstraints(constraintCls)
    .map((constraint) => {
      const unsupported = `${targetName}.${property}: an async constraint`;
      if (constraint.async) throw new UnsupportedByPlan(unsupported);
      // Resolved at the first use, when the container of class-validator's useContainer is known.
      let resolved: ValidatorConstraintInterface | undefined;
      const instance = (): ValidatorConstraintInterface => (resolved ??= constraint.instance);
      const passes = (value: unknown, args: ValidationArguments): boolean => {
        const result = instance().validate(value, args);
        if (typeof result === 'boolean') return result;
        if (!(result instanceof Promise)) return Boolean(result);
        result.catch(() => undefined);
        throw new UnsupportedByPlan(unsupported);
      };
      const failing = (value: unknown, args: ValidationArguments): number =>
        itemsOf(value).findIndex((item) => !passes(item, args));
      return {
        holds: (value, owner) => {
          const args = argumentsFor(owner, value);
          return each ? failing(value, args) < 0 : passes(value, args);
        },
        describe: (value, owner, path) => {
          const args = argumentsFor(owner, value);
          const message = given || instance().defaultMessage?.(args) || '$property is not valid';
          const place = each && Array.isArray(value) ? itemPath(path, failing(value, args)) : path;
          return fillTokens(typeof message === 'function' ? message(args) : message, args, place);
        },
      };
    });
}

/** The values that a constraint with `each` applies to. */
function itemsOf(value: unknown): unknown[] {
  if (Array.isArray(value)) return value;
  return value instanceof Set || value instanceof Map ? [...value.values()] : [value];
}

/** Fills a message's tokens. `$value` is withheld, so that a response does not repeat a secret. */
function fillTokens(message: string, { constraints }: ValidationArguments, path: string): string {
  const text = clip(message, LONGEST_MESSAGE)
    .replaceAll(/\$constraint(\d+)/g, (_, n: string) => [constraints[Number(n) - 1]].flat().join(', '))
    .replaceAll('$value', () => 'the value')
    .replaceAll('$target', () => 'the object')
    .replace('each value in ', '');
  return text.includes('$property') ? text.replaceAll('$property', () => path) : `${path}: ${text}`;
}

const VALUES: readonly unknown[] = [String, Number, Boolean, Date, Buffer];
const CONTAINERS: readonly unknown[] = [Object, Array, Map, Set, Promise];

/** What class-transformer's decorators declare for one field. */
export interface DeclaredTransform {
  /** The class to build. */
  readonly nested: DtoClass | undefined;
  /** Whether the field is a Map of the class. */
  readonly isMap: boolean;
  /** The functions of @Transform, in the order in which they apply, unless the next two properties say the same. */
  readonly transforms: readonly ((params: TransformFnParams) => unknown)[];
  /** Whether the field takes the value itself instead of a copy. */
  readonly isByReference: boolean;
  /** Whether null counts as absent. */
  readonly nullIsAbsent: boolean;
}

/** @throws UnsupportedByPlan when the class has more than decorated fields */
export function requirePlainClass(type: DtoClass, fields: ReadonlySet<string>): void {
  if (fields.size === 0) throw new UnsupportedByPlan(`${type.name} declares no field`);
  const decorated = [...storage.getExposedMetadatas(type), ...storage.getExcludedMetadatas(type)];
  if (decorated.length > 0 || storage.getStrategy(type) !== 'none') {
    throw new UnsupportedByPlan(`${type.name}: @Expose or @Exclude`);
  }
  const names = Object.keys(new type());
  for (let chain: unknown = type.prototype; chain instanceof Object; chain = Object.getPrototypeOf(chain)) {
    if (chain !== Object.prototype) names.push(...Object.getOwnPropertyNames(chain));
  }
  const odd =
    names.find((name) => name !== 'constructor' && !fields.has(name)) ??
    [...fields].find((name) => name in type.prototype);
  if (odd !== undefined) throw new UnsupportedByPlan(`${type.name}.${odd}: not a plain field`);
}

/** What class-transformer does with a field. @throws UnsupportedByPlan for a @Type that is not one class */
export function declaredTransform(type: DtoClass, name: string): DeclaredTransform {
  const transforms = storage
    .findTransformMetadatas(type, name, TransformationType.PLAIN_TO_CLASS)
    // Without groups in the options of the pipe, class-transformer skips what belongs to a group.
    .filter(({ options }) => (options?.groups ?? []).length === 0)
    .map(({ transformFn }) => transformFn);
  const declared = declaredType(type, name);
  const isOwn = transforms.every(
    (each) => NULL_TO_INITIAL.has(each) || (each === passByReference && declared.nested === undefined),
  );
  return {
    ...declared,
    transforms: isOwn ? [] : transforms,
    isByReference: isOwn && transforms.includes(passByReference),
    nullIsAbsent: isOwn && transforms.some((each) => NULL_TO_INITIAL.has(each)),
  };
}

function declaredType(type: DtoClass, name: string): Pick<DeclaredTransform, 'nested' | 'isMap'> {
  const metadata = storage.findTypeMetadata(type, name);
  if (metadata === undefined) return { nested: undefined, isMap: false };
  const { typeFunction, reflectedType, options } = metadata;
  const isDynamic = (typeFunction?.length ?? 0) > 0 || options?.discriminator !== undefined;
  const nested: unknown = isDynamic ? undefined : (typeFunction?.() ?? reflectedType);
  if (!isClass(nested) || reflectedType === Set || VALUES.includes(nested) || CONTAINERS.includes(nested)) {
    throw new UnsupportedByPlan(`${type.name}.${name}: @Type of something other than one class`);
  }
  return { nested, isMap: reflectedType === Map };
}

function isClass(value: unknown): value is DtoClass {
  return typeof value === 'function' && value.prototype instanceof Object;
}
