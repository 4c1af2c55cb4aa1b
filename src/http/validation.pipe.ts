import { Injectable } from '@nestjs/common';
import type { ArgumentMetadata, PipeTransform } from '@nestjs/common';
import { InvalidRequest } from './domain-error.js';
import { DtoPlan, isBag } from './dto-plan.js';
import type { DtoClass } from './field-rules.js';
import { keyPath, Problems, unknownParameter, VALIDATION_FAILED } from './problems.js';

/**
 * Turns bodies and queries into objects of their DTO class and refuses what the class does not declare.
 * Path parameters pass as the strings they are.
 * @throws InvalidRequest with one line per field
 * @throws TypeError when a handler takes a body or a query without a DTO class: nothing goes unchecked
 */
@Injectable()
export class DtoValidationPipe implements PipeTransform {
  transform(value: unknown, { type, metatype, data }: ArgumentMetadata): unknown {
    switch (type) {
      case 'body':
        return readBody(value, planOf(metatype, type));
      case 'query':
        return data === undefined ? readQuery(value, planOf(metatype, type)) : value;
      case 'param':
      case 'custom':
      default:
        return value;
    }
  }
}

/**
 * Reads the JSON value of a body, or of a part that is judged like one.
 * @throws InvalidRequest with one line per field
 */
export function readBody(value: unknown, plan: DtoPlan): object {
  if (!isBag(value)) throw new InvalidRequest(VALIDATION_FAILED, ['the body must be a JSON object']);
  return read(value, plan, (path, key) => `${keyPath(path, key)} is not a known field`);
}

function readQuery(value: unknown, plan: DtoPlan): object {
  return read(isBag(value) ? value : {}, plan, (_, key) => unknownParameter(key));
}

function read(
  source: Record<string, unknown>,
  plan: DtoPlan,
  describeUnknown: (path: string, key: string) => string,
): object {
  const problems = new Problems();
  const result = plan.read(source, problems, describeUnknown);
  problems.throwIfAny();
  return result;
}

function planOf(metatype: ArgumentMetadata['metatype'], what: string): DtoPlan {
  const plan = isDtoClass(metatype) ? DtoPlan.of(metatype) : undefined;
  if (plan === undefined || plan.isEmpty) {
    throw new TypeError(`a handler takes a ${what} without a DTO class (is it imported as a type only?)`);
  }
  return plan;
}

function isDtoClass(metatype: ArgumentMetadata['metatype']): metatype is DtoClass {
  return metatype !== undefined && metatype !== Object;
}
