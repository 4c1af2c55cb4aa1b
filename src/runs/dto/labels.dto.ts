import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { NO_CONTROL_CHARACTERS } from '@longshore/common/json/text';
import {
  IsText,
  IsTextMap,
  OptionalField,
  type TextMapShape,
  type TextShape,
} from '../../common/http/validation/dto-decorators.js';
import { MAX_LABELS, type LabelChanges } from '../machine/labels.js';

/** The name of a run. */
export const RUN_NAME = {
  min: 1,
  max: 200,
  pattern: NO_CONTROL_CHARACTERS,
  form: 'a string without control characters',
} as const satisfies TextShape;

/** A key of labels. */
const KEY = '[a-z0-9](?:[a-z0-9._/-]{0,61}[a-z0-9])?';

/** The labels of a request; null removes one. */
export const LABELS = {
  keys: {
    pattern: new RegExp(`^${KEY}$`),
    form: '1 to 63 characters of a-z, 0-9 and . _ / -, the first and the last a letter or digit',
  },
  values: { max: 256, pattern: NO_CONTROL_CHARACTERS, form: 'a string without control characters' },
  max: MAX_LABELS,
  nullable: true,
} as const satisfies TextMapShape;

/** Labels by which a list may be filtered. */
export const MAX_LABEL_FILTERS = 5;

/** `key` or `key=value`. */
export const LABEL_FILTER = {
  max: 63 + 1 + 256,
  pattern: new RegExp(`^${KEY}(?:=.*)?$`, 's'),
  form: 'a label as key or key=value',
} as const satisfies TextShape;

/** Labels of a request; null removes one. */
export function LabelsField(): PropertyDecorator {
  return applyDecorators(OptionalField(), IsTextMap(LABELS));
}

@ApiSchema({ name: 'RunLabelsUpdate', description: 'A change of the name and the labels of a run.' })
export class UpdateLabelsDto {
  /** Labels to set, by key; null removes one. The others stay as they are. @example {"team": "vision", "draft": null} */
  @LabelsField()
  labels?: LabelChanges;

  /** Name of the run; null: none. Absent: it stays as it is. */
  @IsOptional()
  @IsText(RUN_NAME)
  @ApiProperty({ required: false, nullable: true })
  name?: string | null;
}
