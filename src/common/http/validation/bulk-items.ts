import { applyDecorators } from '@nestjs/common';
import { ApiExtraModels, ApiProperty, getSchemaPath } from '@nestjs/swagger';
import { Check } from './dto-decorators.js';
import { DtoPlan } from './dto-plan.js';
import { PassByReference } from './free-form-json.js';
import type { DtoClass } from './field-checks.js';
import { BODY } from './validation.pipe.js';

/** Largest number of items of a bulk request. */
export const MAX_BULK_ITEMS = 100;

/**
 * A field that holds the items of a bulk request: 1 to 100, of any form. Each item is read on its own, with
 * {@link readItem}, so that an invalid one does not affect the others. The class must be declared before the one that
 * uses it.
 * @throws UnsupportedByPlan when items of the class cannot be read synchronously
 */
export function BulkItems(type: () => DtoClass): PropertyDecorator {
  return (target, name) => {
    const model = type();
    DtoPlan.of(model);
    ApiExtraModels(model)(target.constructor);
    applyDecorators(
      PassByReference(),
      Check(
        'isBulkList',
        (value) => Array.isArray(value) && value.length >= 1 && value.length <= MAX_BULK_ITEMS,
        `must be a list of 1 to ${MAX_BULK_ITEMS} items`,
      ),
      ApiProperty({
        type: 'array',
        items: { $ref: getSchemaPath(model) },
        minItems: 1,
        maxItems: MAX_BULK_ITEMS,
      }),
    )(target, name);
  };
}

/** Reads an item of a bulk request as a body of its class. @throws InvalidRequest as for a request of its own */
export function readItem<T extends object>(type: new () => T, item: unknown): T {
  const read = DtoPlan.of(type).read(item, BODY);
  if (read instanceof type) return read;
  throw new TypeError(`${type.name} was read as another class`);
}
