import { getMetadataStorage } from 'class-validator';
import type { ValidationArguments, ValidatorConstraintInterface } from 'class-validator';
import { clip } from '@longshore/common/json/text';
import { itemPath } from './problems.js';

/** Characters of one message at most; a message may repeat the value. */
export const LONGEST_MESSAGE = 500;

export type DtoClass = new () => object;

type ValidationMetadata = ReturnType<
  ReturnType<typeof getMetadataStorage>['getTargetValidationMetadatas']
>[number];

/** A constraint on a field of a class. */
interface Declared {
  readonly entry: ValidationMetadata;
  readonly targetName: string;
}

/** One constraint of a field. */
export interface FieldCheck {
  readonly holds: (value: unknown, owner: object) => boolean;
  /** The line about a value for which it does not hold. */
  readonly describe: (value: unknown, owner: object, path: string) => string;
}

/** What class-validator's decorators declare for one field. */
export interface DeclaredField {
  /** In the order in which the decorators stand in the source. */
  readonly checks: readonly FieldCheck[];
  /** The field is validated only while each of these holds (@IsOptional, @ValidateIf). */
  readonly conditions: readonly ((owner: object, value: unknown) => unknown)[];
  /** Whether it has @ValidateNested. */
  readonly isNested: boolean;
}

/** A class uses something that a compiled plan does not support; Nest's ValidationPipe reads it. */
export class UnsupportedByPlan extends Error {}

/**
 * The fields that a class and its ancestors declare through class-validator.
 * @throws UnsupportedByPlan when one of them has a validation other than a synchronous constraint
 */
export function declaredFields(type: DtoClass): ReadonlyMap<string, DeclaredField> {
  const fields = new Map<
    string,
    { checks: FieldCheck[]; conditions: DeclaredField['conditions'][number][]; isNested: boolean }
  >();
  for (const entry of getMetadataStorage().getTargetValidationMetadatas(type, '', false, false)) {
    const field = fields.get(entry.propertyName) ?? { checks: [], conditions: [], isNested: false };
    fields.set(entry.propertyName, field);
    // The values of class-validator's ValidationTypes, which it does not export.
    switch (entry.type) {
      case 'whitelistValidation':
        break;
      case 'conditionalValidation':
        field.conditions.push(entry.constraints[0]);
        break;
      case 'nestedValidation':
        field.isNested = true;
        break;
      case 'customValidation':
      case 'isDefined':
        // A field's decorators register from the bottom up.
        field.checks.unshift(...checksOf({ entry, targetName: type.name }));
        break;
      default:
        throw new UnsupportedByPlan(`${type.name}.${entry.propertyName}: ${entry.type}`);
    }
  }
  return fields;
}

function checksOf(declared: Declared): FieldCheck[] {
  const { entry } = declared;
  return getMetadataStorage()
    .getTargetValidatorConstraints(entry.constraintCls)
    .map((constraint) => {
      const unsupported = `${entry.propertyName}: an async constraint`;
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
        itemsOf(value, entry).findIndex((item) => !passes(item, args));
      return {
        holds: (value, owner) => {
          if (entry.validateIf !== undefined && !entry.validateIf(owner, value)) return true;
          const args = argumentsFor(declared, owner, value);
          return entry.each ? failing(value, args) < 0 : passes(value, args);
        },
        describe: (value, owner, path) => {
          const args = argumentsFor(declared, owner, value);
          const message = entry.message || instance().defaultMessage?.(args) || '$property is not valid';
          const place = entry.each && Array.isArray(value) ? itemPath(path, failing(value, args)) : path;
          return worded(typeof message === 'function' ? message(args) : message, args, place);
        },
      };
    });
}

/** The values that a constraint applies to: with `each`, the items of a collection. */
function itemsOf(value: unknown, { each }: ValidationMetadata): unknown[] {
  if (each && Array.isArray(value)) return value;
  return each && (value instanceof Set || value instanceof Map) ? [...value.values()] : [value];
}

function argumentsFor({ entry, targetName }: Declared, owner: object, value: unknown): ValidationArguments {
  return {
    targetName,
    property: entry.propertyName,
    object: owner,
    value,
    constraints: entry.constraints,
  };
}

/** Fills a message's tokens. `$value` is withheld, so that an answer does not repeat a secret. */
function worded(message: string, { constraints }: ValidationArguments, path: string): string {
  const text = clip(message, LONGEST_MESSAGE)
    .replaceAll(/\$constraint(\d+)/g, (_, n: string) => listed(constraints[Number(n) - 1]))
    .replaceAll('$value', () => 'the value')
    .replaceAll('$target', () => 'the object')
    .replace('each value in ', '');
  return text.includes('$property') ? text.replaceAll('$property', () => path) : `${path}: ${text}`;
}

function listed(constraint: unknown): string {
  return Array.isArray(constraint) ? constraint.map(String).join(', ') : String(constraint);
}
