import type { TextShape } from '../../common/http/validation/dto-decorators.js';

/** Variables of one option, and of one secret of kind `map`, at most. */
export const MAX_VARIABLES = 100;

/** The name of an environment variable that a run may set. */
export const VARIABLE_NAME = {
  pattern: /^(?!SERVICE_)[A-Za-z_][A-Za-z0-9_]*$/,
  form: 'letters, digits and _, not starting with a digit or SERVICE_',
} as const satisfies TextShape;
