import type { TextShape } from '../../common/http/validation/dto-decorators.js';

/** Variables of one option, and of one secret of kind `map`, at most. */
export const MAX_VARIABLES = 100;

/** The name of a secret. It begins with a letter or digit, so that no name is `.` or `..` in a path. */
export const SECRET_NAME = {
  min: 1,
  max: 128,
  pattern: /^[A-Za-z0-9][A-Za-z0-9._-]*$/,
  form: 'a name of letters, digits, ".", "_" and "-" that starts with a letter or digit',
} as const satisfies TextShape;
