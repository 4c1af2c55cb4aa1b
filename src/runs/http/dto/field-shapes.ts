import type { IntegerRange, TextShape } from '../../../common/http/validation/dto-decorators.js';

/** A container image as runs and definitions name it. */
export const IMAGE_REFERENCE: TextShape = {
  min: 1,
  max: 512,
  // oxlint-disable-next-line no-control-regex -- the pattern excludes control characters
  pattern: /^[^\s\x00-\x1f\x7f-\x9f]*$/,
  form: 'an image reference without white space',
};

/** A priority: 32 bits with sign. */
export const PRIORITY: IntegerRange = { min: -(2 ** 31), max: 2 ** 31 - 1 };
