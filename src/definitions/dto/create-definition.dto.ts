import type { Type } from '@nestjs/common';
import { ApiSchema } from '@nestjs/swagger';
import {
  IsText,
  IsTextList,
  IsTextMap,
  JsonObject,
  Nested,
  NestedMap,
  OptionalField,
  SHOWN_LINES,
} from '../../common/http/validation/dto-decorators.js';
import type { JsonObject as JsonObjectValue } from '@longshore/common/json/json-value';
import {
  ExecutionOptionsInputDto,
  RunExecutionOptionsInputDto,
} from '../../runs/dto/execution-options.dto.js';
import {
  EventAttributesInputDto,
  EventDeliveryInputDto,
  ImageField,
} from '../../runs/dto/timeouts-and-delivery.dto.js';
import { GrowsFromConstraints, RetryPolicyInputDto } from '../../runs/dto/retry-policy.dto.js';
import type { Argument } from '../templates/template-text.js';
import { IsArgumentList } from './argument.dto.js';
import { InputSpecInputDto, OutputSpecInputDto } from './specs.dto.js';

export const NAME = {
  min: 1,
  max: 128,
  pattern: /^[A-Za-z0-9][A-Za-z0-9._-]*$/,
  form: 'a string that is a name (letters, digits and . _ -, starting with a letter or digit)',
} as const;

/** Inputs, and as many outputs, that a definition may declare. */
const MAX_SPECS = 1000;

@ApiSchema({
  name: 'Applied',
  description: 'What `longshore apply` stored last, by which it tells changes of files from other ones.',
})
export class AppliedDto {
  /** Name of the set of files. */
  @IsText(NAME)
  set: string;

  /** Fields that the file gives. */
  @IsTextList({ min: 1, max: 64 }, { max: 100 })
  given: string[];

  /** A digest of each field as it was stored. */
  @IsTextMap({ max: 100, keys: { min: 1, max: 64 }, values: { min: 1, max: 64 } })
  fields: Readonly<Record<string, string>>;
}

/** The options of a run, with another form of `args`. */
const OptionsInputDto: Type<Omit<ExecutionOptionsInputDto, 'args'>> = ExecutionOptionsInputDto;

@ApiSchema({
  name: 'OpDefinitionCreate',
  description:
    'A version of a definition to create or replace. In `command`, `args`, `env` and the `sub_path` of `mounts`, `${inputs.NAME}` ' +
    'and `${run.id}` stand for an input and the id of a run: they are replaced when a run is created. `$${` is a literal `${`.',
})
export class CreateDefinitionDto extends OptionsInputDto {
  /** Name of the definition. @example word-count */
  @IsText(NAME)
  id: string;

  /** @example 1.0.0 */
  @IsText(NAME)
  version: string;

  /** Container image. @example longshore/word-count */
  @ImageField()
  image: string;

  /** What it is for. */
  @OptionalField()
  @IsText({ max: 4096, ...SHOWN_LINES })
  description?: string;

  /** Inputs by name. With any, a run may give only these. */
  @OptionalField()
  @NestedMap(() => InputSpecInputDto, { max: MAX_SPECS })
  input_specs?: Map<string, InputSpecInputDto>;

  @OptionalField()
  @IsArgumentList()
  args?: Argument[];

  /** Outputs by name, for readers: outputs of runs are not checked. */
  @OptionalField()
  @NestedMap(() => OutputSpecInputDto, { max: MAX_SPECS })
  output_specs?: Map<string, OutputSpecInputDto>;

  /** How often a failed attempt of its runs is repeated. */
  @OptionalField()
  @Nested(() => RetryPolicyInputDto)
  @GrowsFromConstraints()
  retry_policy?: RetryPolicyInputDto;

  /** Feed that mirrors the events of its runs. */
  @OptionalField()
  @Nested(() => EventDeliveryInputDto)
  event_delivery?: EventDeliveryInputDto;

  /** Stays unless given. */
  @OptionalField()
  @Nested(() => AppliedDto)
  applied?: AppliedDto;
}

@ApiSchema({
  name: 'DefinitionRunCreate',
  description:
    'A run to create from a definition. An option that is given replaces that of the definition; `env` and `secrets` are ' +
    'merged variable by variable, `files` path by path, `constraints`, `retry_policy` and `timeouts` field by field; ' +
    '`cpu` and `cpu_millis` replace each other.',
})
export class CreateDefinitionRunDto extends RunExecutionOptionsInputDto {
  /** Inputs that the definition declares; its defaults fill in the rest. @example {"text": "to be or not to be"} */
  @OptionalField()
  @JsonObject()
  inputs?: JsonObjectValue;

  /** How often a failed attempt is repeated. */
  @OptionalField()
  @Nested(() => RetryPolicyInputDto)
  retry_policy?: RetryPolicyInputDto;

  /** Only if the definition has a topic. */
  @OptionalField()
  @Nested(() => EventAttributesInputDto)
  event_delivery?: EventAttributesInputDto;
}
