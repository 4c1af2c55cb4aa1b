import { getMetadataStorage } from 'class-validator';
import type { ValidationArguments } from 'class-validator';
import type { DtoClass } from './field-rules.js';
import { itemPath } from './problems.js';

type ValidationMetadata = ReturnType<
  ReturnType<typeof getMetadataStorage>['getTargetValidationMetadatas']
>[number];

/** Gives the line about a value that fails the check, or undefined when it holds. */
export type FieldCheck = (value: unknown, owner: object, path: string) => string | undefined;

/** What class-validator's decorators say about one field. */
export interface DeclaredField {
  /** In the order in which the decorators stand in the source. */
  readonly checks: readonly FieldCheck[];
  /** Checks apply only while each of these holds (@IsOptional, @ValidateIf). */
  readonly conditions: readonly ((owner: object, value: unknown) => boolean)[];
}

// `type` of a metadata entry as class-validator's decorators write it; ValidationTypes is not exported.
const CONDITION = 'conditionalValidation';
const CUSTOM = 'customValidation';

/** The fields that a class and its ancestors declare through class-validator, with their checks. */
export function declaredFields(type: DtoClass): ReadonlyMap<string, DeclaredField> {
  const entries = getMetadataStorage().getTargetValidationMetadatas(type, type.name, false, false);
  const fields = new Map<
    string,
    { checks: FieldCheck[]; conditions: DeclaredField['conditions'][number][] }
  >();
  for (const entry of entries) {
    const field = fields.get(entry.propertyName) ?? { checks: [], conditions: [] };
    fields.set(entry.propertyName, field);
    if (entry.type === CONDITION) field.conditions.push(conditionOf(entry));
    // A field's decorators register from the bottom up.
    else if (entry.type === CUSTOM) field.checks.unshift(...checksOf(entry));
  }
  return fields;
}

function conditionOf(entry: ValidationMetadata): DeclaredField['conditions'][number] {
  const [condition]: unknown[] = entry.constraints;
  if (typeof condition !== 'function') throw new TypeError(`${entry.propertyName}: condition is no function`);
  return (owner, value) => Boolean(condition(owner, value));
}

function checksOf(entry: ValidationMetadata): FieldCheck[] {
  return getMetadataStorage()
    .getTargetValidatorConstraints(entry.constraintCls)
    .map((constraint) => {
      if (constraint.async) throw new TypeError(`${entry.propertyName}: async validators are not supported`);
      const { instance } = constraint;
      const holds = (value: unknown, owner: object): boolean => {
        if (entry.validateIf !== undefined && !entry.validateIf(owner, value)) return true;
        return instance.validate(value, argumentsFor(entry, owner, value)) === true;
      };
      const describe = (owner: object, path: string): string =>
        worded(
          entry.message || (instance.defaultMessage?.bind(instance) ?? '$property is not valid'),
          argumentsFor(entry, owner, undefined),
          path,
        );
      return entry.each ? checkEach(holds, describe) : checkOne(holds, describe);
    });
}

function argumentsFor(entry: ValidationMetadata, owner: object, value: unknown): ValidationArguments {
  return {
    targetName: owner.constructor.name,
    property: entry.propertyName,
    object: owner,
    value,
    constraints: entry.constraints,
  };
}

function checkOne(
  holds: (value: unknown, owner: object) => boolean,
  describe: (owner: object, path: string) => string,
): FieldCheck {
  return (value, owner, path) => (holds(value, owner) ? undefined : describe(owner, path));
}

function checkEach(
  holds: (value: unknown, owner: object) => boolean,
  describe: (owner: object, path: string) => string,
): FieldCheck {
  return (value, owner, path) => {
    if (!Array.isArray(value)) return `${path} must be a list`;
    const index = value.findIndex((item) => !holds(item, owner));
    return index < 0 ? undefined : describe(owner, itemPath(path, index)).replace('each value in ', '');
  };
}

/** Fills a message's tokens. The value itself is withheld, so that no message can echo it. */
function worded(
  message: string | ((args: ValidationArguments) => string),
  args: ValidationArguments,
  path: string,
): string {
  const template = typeof message === 'function' ? message(args) : message;
  const text = template
    .replaceAll(/\$constraint(\d+)/g, (_, n: string) => listed(args.constraints[Number(n) - 1]))
    .replaceAll('$value', () => 'the value')
    .replaceAll('$target', () => 'the object');
  return text.includes('$property') ? text.replaceAll('$property', () => path) : `${path}: ${text}`;
}

function listed(constraint: unknown): string {
  return Array.isArray(constraint) ? constraint.map(String).join(', ') : String(constraint);
}
