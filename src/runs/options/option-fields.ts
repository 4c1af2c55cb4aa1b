import { applyDecorators, type Type } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { ValidateBy } from 'class-validator';
import type { JsonValue } from '@longshore/common/json/json-value';
import { OptionalField } from '../../common/http/validation/dto-decorators.js';
import { OPTIONS, type RequestedOptions, type ShownOptions } from './option-values.js';
import type { RunOption } from './run-option.js';

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
  decorate: (option: RunOption<JsonValue>) => PropertyDecorator | undefined,
): Type<Partial<T>> {
  // oxlint-disable-next-line typescript/no-extraneous-class -- the loop declares its fields
  class OptionFields {}
  for (const [name, option] of OPTIONS) decorate(option)?.(OptionFields.prototype, name);
  return OptionFields;
}

/** What the option must be beside the other options of the request. */
function CheckAmongOthers(option: RunOption<JsonValue>): PropertyDecorator {
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
