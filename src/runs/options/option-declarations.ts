import { ULIMITS, type Ulimits } from '@longshore/common/capabilities';
import { isJsonObject } from '@longshore/common/json/json-value';
import type { TextMapShape, TextShape } from '../../common/http/validation/dto-decorators.js';
import {
  integerOption,
  integersOption,
  textListOption,
  textMapOption,
  textOption,
  objectListOption,
  type OptionDeclaration,
  type TextObjectShape,
} from './option-kinds.js';
import { workdirProblem } from './container-path.js';
import { SECRET_NAME, MAX_VARIABLES } from './names.js';
import { VARIABLE_NAME } from '@longshore/common/variable-names';
import { ARTIFACTS } from './run-artifacts.js';
import { FILES } from './run-files.js';
import { MOUNTS } from './run-mounts.js';

/** A secret of kind `map`, whose variables the container gets. */
export interface SecretVariables {
  readonly secret: string;
  /** Before each name; absent: nothing. */
  readonly prefix?: string;
}

const SECRETS_FROM_SHAPE: TextObjectShape = {
  secret: {
    ...SECRET_NAME,
    about: 'Name of a secret of kind `map`.',
    example: 's3-credentials',
    isRequired: true,
  },
  prefix: {
    max: 128,
    pattern: /^(?:[A-Za-z_.-][A-Za-z0-9_.-]*)?$/,
    form: 'letters, digits, "_", "-" and ".", not starting with a digit,',
    about: 'Stands before each name of its variables. Default: nothing.',
    example: 'S3_',
  },
};

/** Secrets that hold variables with their names. */
const SECRETS_FROM: OptionDeclaration<readonly SecretVariables[]> = objectListOption<SecretVariables>(
  SECRETS_FROM_SHAPE,
  { max: 20 },
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
  },
);

const ENV: TextMapShape = { keys: VARIABLE_NAME, max: MAX_VARIABLES, maxBytes: 32 * 1024 };
const SECRETS: TextMapShape = { keys: VARIABLE_NAME, values: SECRET_NAME, max: MAX_VARIABLES };

/** Strings of `command` and of `args`. */
export const ARGUMENT = { max: 4096 } as const;
export const MAX_ARGUMENTS = { max: 100 } as const;

const WORKDIR: TextShape = {
  max: 512,
  // oxlint-disable-next-line no-control-regex -- paths do not contain them
  pattern: /^\/[^\x00-\x1f\x7f-\x9f]*$/,
  form: 'an absolute path',
};
const USER: TextShape = {
  pattern: /^(?:0|[1-9][0-9]{0,9})(?::(?:0|[1-9][0-9]{0,9}))?$/,
  form: 'the number of a user, or those of a user and a group as 1000:1000',
};
const NETWORK: TextShape = {
  pattern: /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/,
  form: 'a name of 1 to 63 characters of a-z, 0-9 and -, which begins and ends with a letter or a digit',
};
const inBytes = ({ most }: { readonly most: number }, about: string) =>
  ({ type: 'integer', min: -1, max: most, about, example: -1 }) as const;
const ULIMITS_SHAPE = {
  nofile: { type: 'integer', min: 1, max: ULIMITS.nofile.most, about: 'Open files.', example: 65_536 },
  memlock: inBytes(ULIMITS.memlock, 'Locked memory in bytes; -1: no limit.'),
  stack: inBytes(ULIMITS.stack, 'Stack in bytes; -1: no limit.'),
  core: inBytes(ULIMITS.core, 'Core files in bytes; 0: none are written, -1: no limit.'),
} as const;
/** Kubernetes takes no larger number of a user or a group. */
const MAX_ID = 2 ** 31 - 1;

/**
 * The options of a run that only the worker carries out. Requests of runs and definitions, how the two merge, the stored
 * document, answers, claims, lanes and the OpenAPI document follow from these declarations, and from that document the flags
 * of the command line and the fields of the dashboard.
 */
export const OPTION_DECLARATIONS = {
  env: textMapOption(ENV, {
    texts: {
      request:
        'Environment variables of the container: at most 100, and 32 KiB with their names. A name has letters, digits, `_`, `-` ' +
        'and `.`, does not start with a digit, and is none of those that the worker sets itself.',
      answer: 'Environment variables of the container.',
      claim: 'Environment variables of the container; absent without any.',
    },
    example: { LOG_LEVEL: 'debug' },
    capabilities: ['env'],
  }),
  command: textListOption(ARGUMENT, MAX_ARGUMENTS, {
    texts: {
      request:
        'Replaces the entrypoint of the image. Without `args`, the arguments of the image are dropped as well. An empty list ' +
        'keeps those of the image.',
      answer: 'Replaces the entrypoint of the image; null: it does not.',
      claim:
        'Replaces the entrypoint of the image; without `args`, its arguments are dropped as well. Absent: it does not.',
    },
    example: ['python', 'count.py'],
    capabilities: ['command'],
  }),
  args: textListOption(ARGUMENT, MAX_ARGUMENTS, {
    texts: {
      request: 'Replaces the arguments of the image. An empty list keeps them.',
      answer: 'Replaces the arguments of the image; null: it does not.',
      claim: 'Replaces the arguments of the image; absent: it does not.',
    },
    example: ['--verbose'],
    capabilities: ['command'],
  }),
  secrets: textMapOption(SECRETS, {
    texts: {
      request:
        'Names of secrets by the environment variable of the container that holds the value: at most 100. None of the ' +
        'variables may be in `env`.',
      answer: 'Names of secrets by the environment variable that holds the value.',
      claim: 'Names of secrets by the environment variable for the value; absent without any.',
    },
    example: { TOKEN: 'hub-token' },
    capabilities: ['secrets'],
    problem: (secrets, all, path) => {
      const env: unknown = Reflect.get(all, 'env');
      const common = isJsonObject(env)
        ? Object.keys(secrets).find((name) => Object.hasOwn(env, name))
        : undefined;
      return common === undefined ? undefined : `${path}.${common} must not be in env as well`;
    },
  }),
  secrets_from: SECRETS_FROM,
  files: FILES,
  mounts: MOUNTS,
  artifacts: ARTIFACTS,
  image_pull_secret: textOption(SECRET_NAME, {
    texts: {
      request: 'Name of the secret, of kind `registry`, with the login for the registry of the image.',
      answer: 'Name of the secret with the login for the registry.',
      claim: 'Name of the secret with the login for the registry of the image; absent without one.',
    },
    example: 'hub-login',
    capabilities: ['registry'],
  }),
  workdir: textOption(WORKDIR, {
    texts: {
      request:
        'Working directory of the container: `/` or an absolute path as those of `files`, which is created if the image does ' +
        'not have it.',
      answer: "Working directory of the container; null: the image's.",
      claim: "Working directory of the container; absent: the image's.",
    },
    example: '/work',
    capabilities: ['container'],
    problem: (workdir, _all, path) =>
      typeof workdir === 'string' ? workdirProblem(workdir, path) : undefined,
  }),
  user: textOption(USER, {
    texts: {
      request:
        'Number of the user that the container runs as, or numbers of user and group, such as `1000:1000`. Names are not taken: ' +
        'only the image knows them.',
      answer: "User of the container as numbers, `uid` or `uid:gid`; null: the image's.",
      claim: "User of the container as numbers, `uid` or `uid:gid`; absent: the image's.",
    },
    example: '1000:1000',
    capabilities: ['container'],
    problem: (user, _all, path) =>
      typeof user === 'string' && user.split(':').some((id) => Number(id) > MAX_ID)
        ? `${path} must have numbers of at most ${MAX_ID}`
        : undefined,
  }),
  network: textOption(NETWORK, {
    texts: {
      request:
        'Name of the network of the container, which workers map to one of their engine; `none`: no network. `host` is refused.',
      answer: "Name of the container's network; null: that of the worker.",
      claim: "Name of the container's network, `none` for none; absent: that of the worker.",
    },
    example: 'none',
    capabilities: ['network:'],
    problem: (network, _all, path) => (network === 'host' ? `${path} must not be host` : undefined),
  }),
  stop_grace_s: integerOption({ min: 0, max: 3600 }, 10, {
    texts: {
      request:
        'Seconds from SIGTERM to SIGKILL when the container is ended: at a cancel, at a timeout, or when its worker shuts down. ' +
        'Default: 10. More than 300: only workers that allow so many get the run.',
      answer: 'Seconds from SIGTERM to SIGKILL when the container is ended.',
      claim: 'Seconds from SIGTERM to SIGKILL when the container is ended; absent: 10.',
    },
    example: 120,
    capabilities: ['container', 'stop_grace:'],
  }),
  ulimits: integersOption<Ulimits>(ULIMITS_SHAPE, {
    texts: {
      request:
        'Limits of the program, each soft and hard: `nofile` open files, and `memlock`, `stack` and `core` in bytes, -1 for none. ' +
        'Only workers that allow so much get the run.',
      answer: 'Limits of the program, soft and hard; those that are absent are those of the engine.',
      claim: 'Limits of the program, soft and hard; absent without any.',
    },
    example: { nofile: 65_536, memlock: -1 },
    capabilities: ['ulimit:'],
  }),
};
