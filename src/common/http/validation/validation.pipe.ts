import { Injectable, ValidationPipe } from '@nestjs/common';
import type { ArgumentMetadata, ValidationError } from '@nestjs/common';
import { getMetadataStorage } from 'class-validator';
import type { ValidatorOptions } from 'class-validator';
import { isJsonObject } from '@longshore/common/json/json-value';
import { clip } from '@longshore/common/json/text';
import { InvalidRequest } from '../../errors/domain-error.js';
import { allowsUnknownFields } from './dto-decorators.js';
import { DtoPlan } from './dto-plan.js';
import type { ReadOptions } from './dto-plan.js';
import { LONGEST_MESSAGE, UnsupportedByPlan } from './field-checks.js';
import { copyJson, roundedNumbers } from './free-form-json.js';
import {
  fieldPath,
  itemPath,
  keyPath,
  outOfRange,
  Problems,
  unknownField,
  unknownParameter,
  VALIDATION_FAILED,
} from './problems.js';
import type { DtoClass } from './field-checks.js';

export const BODY: ReadOptions = {
  notAnObject: 'the body must be a JSON object',
  path: '',
  describeUnknown: unknownField,
};

const QUERY: ReadOptions = {
  notAnObject: 'the query must be an object',
  path: '',
  describeUnknown: (_, key, known) => unknownParameter(key, known),
};

/** Carries the errors of class-validator through Nest's ValidationPipe. */
class ConstraintsViolated extends Error {
  constructor(readonly errors: readonly ValidationError[]) {
    super(VALIDATION_FAILED);
  }
}

/**
 * Nest's ValidationPipe, with transformation and without unknown fields, that answers with one line per field. Classes
 * that a {@link DtoPlan} supports are read by it, which is faster; Nest's own implementation reads the others.
 * @throws InvalidRequest with one line per field
 */
@Injectable()
export class DtoValidationPipe extends ValidationPipe {
  constructor() {
    super({
      transform: true,
      whitelist: true,
      forbidNonWhitelisted: true,
      validationError: { target: false, value: true },
      exceptionFactory: (errors) => new ConstraintsViolated(errors),
    });
  }

  override async transform(value: unknown, metadata: ArgumentMetadata): Promise<unknown> {
    const { metatype } = metadata;
    if (metatype === undefined || !this.toValidate(metadata)) return this.transformPrimitive(value, metadata);
    const options = optionsFor(metadata);
    const source = options === BODY ? value : (value ?? {});
    try {
      return DtoPlan.of(metatype).read(source, options);
    } catch (error) {
      if (!(error instanceof UnsupportedByPlan)) throw error;
      DtoPlan.giveUp(metatype, error);
    }
    if (!isJsonObject(source) && hasRules(metatype)) {
      throw new InvalidRequest(VALIDATION_FAILED, [options.notAnObject]);
    }
    return await this.#transformByNest(source, metadata, options);
  }

  async #transformByNest(value: unknown, metadata: ArgumentMetadata, options: ReadOptions): Promise<unknown> {
    const problems = new Problems();
    try {
      const result: unknown = await super.transform(copyJson(value), metadata);
      for (const place of roundedNumbers(result, options.path)) problems.add(outOfRange(place));
      problems.throwIfAny();
      return result;
    } catch (error) {
      if (!(error instanceof ConstraintsViolated)) throw error;
      for (const line of linesOf(error.errors, value, options.path, options)) problems.add(line);
      problems.throwIfAny();
      throw error;
    }
  }

  /** Called by Nest's implementation. */
  protected override validate(
    object: object,
    options?: ValidatorOptions,
  ): Promise<ValidationError[]> | ValidationError[] {
    const forbidNonWhitelisted = !allowsUnknownFields(object.constructor);
    return super.validate(object, { ...options, forbidNonWhitelisted });
  }
}

/** How a handler's parameter is read: a part of the body, the path or the query is named in each line. */
function optionsFor({ type, data }: ArgumentMetadata): ReadOptions {
  if (data !== undefined) return { ...BODY, notAnObject: `${data} must be an object`, path: data };
  return type === 'query' ? QUERY : BODY;
}

function hasRules(type: DtoClass): boolean {
  return getMetadataStorage().getTargetValidationMetadatas(type, '', false, false).length > 0;
}

/** One line per field: of its own constraints the first in the source, otherwise those of what is nested in it. */
function linesOf(
  errors: readonly ValidationError[],
  owner: unknown,
  parent: string,
  options: ReadOptions,
): string[] {
  return errors.flatMap(({ property, value, constraints, children = [] }) => {
    const path = pathOf(owner, parent, property);
    if (constraints === undefined) return linesOf(children, value, path, options);
    if ('whitelistValidation' in constraints) return options.describeUnknown(parent, property, []);
    return value === undefined || value === null
      ? `${path} is required`
      : describe(constraints, property, path);
  });
}

function pathOf(owner: unknown, parent: string, property: string): string {
  if (Array.isArray(owner) || owner instanceof Set) return itemPath(parent, Number(property));
  return owner instanceof Map ? keyPath(parent, property) : fieldPath(parent, property);
}

function describe(constraints: Readonly<Record<string, string>>, property: string, path: string): string {
  // A field's decorators register from the bottom up.
  const message = clip(Object.values(constraints).at(-1) ?? '', LONGEST_MESSAGE).replace(
    'each value in ',
    '',
  );
  return message.startsWith(property)
    ? `${path}${message.slice(property.length)}`
    : `${path}: ${message || 'is not valid'}`;
}
