import { itemPath } from '../../common/http/validation/problems.js';
import { SECRET_NAME } from '../secret-name.js';
import { objectListOption, type RunOption } from './run-option.js';
import { objectProblem, type TextObjectShape } from './option-object.js';

/** A secret of kind `map`, whose variables the container gets. */
export interface SecretVariables {
  readonly secret: string;
  /** Before each name; absent: nothing. */
  readonly prefix?: string;
}

const MAX_SECRETS = 20;

const SHAPE: TextObjectShape = {
  secret: {
    ...SECRET_NAME,
    about: 'Name of a secret of kind `map`.',
    example: 's3-credentials',
    isRequired: true,
  },
  prefix: {
    max: 128,
    pattern: /^(?:(?!SERVICE_)[A-Za-z_][A-Za-z0-9_]*)?$/,
    form: 'letters, digits and _, not starting with a digit or SERVICE_,',
    about: 'Stands before each name of its variables. Default: nothing.',
    example: 'S3_',
  },
};

/** Secrets that hold variables with their names. */
export const SECRETS_FROM: RunOption<readonly SecretVariables[]> = objectListOption<SecretVariables>(
  SHAPE,
  { max: MAX_SECRETS },
  {
    texts: {
      request:
        'Secrets of kind `map`, at most 20: the container gets all of their variables. Of a variable in several of them the last ' +
        'counts; those of `env` are below them, those of `secrets` above.',
      answer: 'Secrets whose variables the container gets.',
      claim: 'Secrets whose variables the container gets; absent without any.',
    },
    example: [{ secret: 's3-credentials', prefix: 'S3_' }],
    capabilities: ['secrets_from'],
    problem: (value: unknown, _all, path) => {
      if (!Array.isArray(value) || value.length > MAX_SECRETS)
        return `${path} must be a list of at most ${MAX_SECRETS} items`;
      return value
        .map((item, index) => objectProblem(item, SHAPE, itemPath(path, index)))
        .find((problem) => problem !== undefined);
    },
  },
);
