import { applyDecorators } from '@nestjs/common';
import { ApiExtraModels, ApiProperty, ApiSchema, getSchemaPath } from '@nestjs/swagger';
import { Transform } from 'class-transformer';
import { isJsonObject } from '@longshore/common/json/json-value';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import {
  CheckBy,
  IsText,
  OptionalField,
  textListProblem,
  type TextShape,
} from '../../common/http/validation/dto-decorators.js';
import { DtoPlan } from '../../common/http/validation/dto-plan.js';
import { passByReference } from '../../common/http/validation/free-form-json.js';
import { itemPath } from '../../common/http/validation/problems.js';
import { BODY } from '../../common/http/validation/validation.pipe.js';
import { ARGUMENT, MAX_ARGUMENTS } from '../../runs/options/option-declarations.js';
import type { FlagArgument } from '../templates/template-text.js';

/** `flag` and `join` are taken as they are. */
const PLAIN: TextShape = { max: 256, pattern: /^(?:[^$]|\$(?!\{))*$/, form: 'a string without ${' };
const FLAG: TextShape = { ...PLAIN, min: 1 };
const INPUT: TextShape = { min: 1, max: 4096 };
const EXAMPLE: FlagArgument = { flag: '--window', input: 'window_size' };

@ApiSchema({
  name: 'FlagArgument',
  description:
    'Stands for two arguments, the flag and an input; for none when the run does not have the input. A boolean gives the flag alone ' +
    'if it is true, an array both for each element.',
})
export class FlagArgumentDto implements FlagArgument {
  /** @example --window */
  @IsText(FLAG)
  flag: string;

  /** Name of the input. @example window_size */
  @IsText(INPUT)
  input: string;

  /** Joins the two to one argument. @example = */
  @OptionalField()
  @IsText(PLAIN)
  join?: string;
}

const ITEMS = {
  oneOf: [{ type: 'string', maxLength: ARGUMENT.max }, { $ref: getSchemaPath(FlagArgumentDto) }],
};

/** A list of arguments: strings, and flags with inputs. */
export function IsArgumentList(): PropertyDecorator {
  return applyDecorators(
    CheckBy('isArgumentList', argumentsProblem),
    // As with other optional fields, null counts as absent.
    Transform((params) => withoutNulls(passByReference(params)), { toClassOnly: true }),
    ApiArgumentList({
      description:
        'Replaces the arguments of the image. An empty list keeps them. An object stands for a flag with an input.',
      maxItems: MAX_ARGUMENTS.max,
      example: ['--verbose', EXAMPLE],
    }),
  );
}

/** Describes a list of arguments. */
export function ApiArgumentList(more: object): PropertyDecorator {
  return (target, name) => {
    ApiExtraModels(FlagArgumentDto)(target.constructor);
    ApiProperty({ type: 'array', items: ITEMS, ...more })(target, name);
  };
}

function withoutNulls(value: unknown): unknown {
  return Array.isArray(value) && value.length <= MAX_ARGUMENTS.max ? value.map(withoutNull) : value;
}

function withoutNull(item: unknown): unknown {
  return isJsonObject(item)
    ? Object.fromEntries(Object.entries(item).filter(([, value]) => value !== null))
    : item;
}

function argumentsProblem(value: unknown, path: string): string | undefined {
  const texts: unknown = Array.isArray(value) ? value.map((item) => (isJsonObject(item) ? '' : item)) : value;
  const problem = textListProblem(texts, ARGUMENT, MAX_ARGUMENTS, path);
  if (problem !== undefined || !Array.isArray(value)) return problem;
  const problems = value.map((item, at) => flagProblem(item, itemPath(path, at)));
  return problems.find((each) => each !== undefined);
}

function flagProblem(item: unknown, path: string): string | undefined {
  if (!isJsonObject(item)) return undefined;
  try {
    DtoPlan.of(FlagArgumentDto).read(item, { ...BODY, path });
    return undefined;
  } catch (error) {
    if (!(error instanceof InvalidRequest)) throw error;
    return error.errors?.[0];
  }
}
