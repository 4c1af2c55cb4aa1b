import { stat } from 'node:fs/promises';
import type { Schemas } from '@longshore/client';
import { RETRY_ON_CAUSES, RUN_OPTIONS, type RunOption } from '@longshore/client/constants';
import { textOrBytes } from '@longshore/common/binary';
import { isJsonObject } from '@longshore/common/json/json-value';
import { parseEnvFile } from '@longshore/common/settings/env-file';
import { VARIABLE_NAME } from '@longshore/common/variable-names';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { usageError } from '../cli-error.js';
import { integerOption, several, time, type CliContext } from '../command-kit.js';
import { readBytes, splitAssignment } from './inputs.js';

/** Flags for what a run may also say; those of {@link RUN_OPTIONS} are read by their names. */
export interface OptionFlags {
  readonly envFile?: readonly string[];
  readonly name?: string;
  readonly label?: readonly string[];
  readonly selector?: readonly string[];
  readonly concurrencyKey?: string;
  readonly concurrencyLimit?: number;
  readonly onLimit?: (typeof ON_LIMIT)[number];
  /** ISO 8601, or a span that the service adds to its time. */
  readonly startAt?: string;
  readonly retryOn?: readonly string[];
  readonly growRam?: Omit<AmountGrowth, 'on'>;
  readonly growOn?: readonly string[];
}

type AmountGrowth = Schemas['AmountGrowthInput'];

/** Fields of a request that creates a run; a field that no flag gives is absent. */
export type FlaggedOptions = Partial<
  Pick<
    Schemas['OpRunCreate'],
    RunOption['name'] | 'name' | 'labels' | 'selector' | 'concurrency' | 'start_at'
  >
>;

/** Flags that say more than their option's name and description in the API. */
const FLAGS: { readonly [N in RunOption['name']]?: readonly [flags: string, description: string] } = {
  env: ['-e, --env <name=value>', 'an environment variable of the container'],
  command: ['--command <word>', "a word of the command in place of the image's entrypoint"],
  args: ['--arg <word>', 'an argument, as after --'],
  secrets: ['--secret <variable=secret>', 'an environment variable with the value of a secret'],
  secrets_from: [
    '--secrets-from <secret>',
    'all variables of a secret of kind map; PREFIX=secret: with a prefix',
  ],
  files: [
    '--file <path=value>',
    'a file of the container: @FILE or @FILE,mode=0555 has its bytes, a JSON object says more, such as {"secret": "gcp-key", "env": "KEY_FILE"}',
  ],
  mounts: [
    '--mount <fields>',
    'a folder of the container, such as volume=results,path=/out,sub_path=a/b or volume=data,path=/data,ro or scratch_mb=500,path=/tmp/big',
  ],
  ulimits: [
    '--ulimit <name=n>',
    'a limit of the program, soft and hard: nofile=65536, or memlock, stack or core in bytes, -1 for none',
  ],
  image_pull_secret: ['--image-pull-secret <secret>', 'secret with the login for the registry of the image'],
};

const ON_LIMIT = [
  'queue',
  'skip',
  'cancel_oldest',
] as const satisfies readonly Schemas['ConcurrencyInput']['on_limit'][];

/** What stands for the value in the help, by its kind. */
const VALUES = {
  map: '<name=value>',
  list: '<word>',
  'object-list': '<text>',
  'object-map': '<name=value>',
  'record-list': '<fields>',
  text: '<text>',
  integer: '<n>',
  integers: '<name=n>',
} as const;

function toFlag({ name, kind, about }: RunOption): Option {
  const [flags, description] = FLAGS[name] ?? [
    `--${name.replaceAll('_', '-')} ${VALUES[kind]}`,
    about.charAt(0).toLowerCase() + about.slice(1),
  ];
  if (kind === 'integer') {
    return integerOption(flags, description, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
  }
  const flag = new Option(flags, description);
  return kind === 'text' ? flag : flag.argParser(several);
}

/** Adds the flags of {@link RUN_OPTIONS} and {@link OptionFlags}, and the arguments of the container after `--`. */
export function addOptionFlags(command: Command): Command {
  command.argument('[args...]', 'after --: arguments in place of those of the image');
  for (const option of RUN_OPTIONS) command.addOption(toFlag(option));
  return command
    .option(
      '--env-file <file>',
      'environment variables, a name=value in each line as for docker run; --env overrides',
      several,
    )
    .option('--name <name>', 'name for people, which need not be unique')
    .option('-l, --label <key=value>', 'a label, by which runs are found', several)
    .option('--selector <tag>', 'only workers with this tag get the run; a list is separated by commas', tags)
    .option('--concurrency-key <key>', 'runs with this key are limited together')
    .addOption(
      integerOption(
        '--concurrency-limit <n>',
        'so many runs with the key may execute (default: 1)',
        1,
        10_000,
      ),
    )
    .addOption(
      new Option(
        '--on-limit <what>',
        'if so many runs with the key have not ended: wait, end the new run, or end the oldest (default: queue)',
      ).choices(ON_LIMIT),
    )
    .option('--start-at <time>', 'not before: 10m, 2h, or ISO 8601 with a zone', time)
    .option(
      '--retry-on <causes>',
      `retry only these failures: ${RETRY_ON_CAUSES.join(', ')}, exit:75, exit:100-110`,
      tags,
    )
    .addOption(
      new Option(
        '--grow-ram <factor:mb>',
        'RAM of the next attempt after one that exceeded it, such as 2x:16384: twice as much, at most 16384 MB',
      ).argParser(growth),
    )
    .option('--grow-on <causes>', 'failures after which it grows, as for --retry-on (default: oom)', tags);
}

/** The members of `retry_policy` that the flags give. @throws CliError when they contradict each other */
export function readRetries({ retryOn, growRam, growOn }: OptionFlags) {
  if (growOn !== undefined && growRam === undefined) throw usageError('--grow-on needs --grow-ram');
  return {
    retry_on: retryOn && [...retryOn],
    grow: growRam && { ram_mb: { ...growRam, ...(growOn && { on: [...growOn] }) } },
  };
}

/** Reads `2x:16384`. @throws InvalidArgumentError */
function growth(text: string): NonNullable<OptionFlags['growRam']> {
  const [, factor, max] = /^(\d{1,2}(?:\.\d{1,15})?)x?:(\d{1,10})$/.exec(text) ?? [];
  if (factor === undefined)
    throw new InvalidArgumentError('It must be a factor and MB, such as 2x:16384 or 1.5x:8000.');
  return { factor: Number(factor), max: Number(max) };
}

/**
 * Reads the options from their flags.
 * @param operands arguments of the container
 * @throws CliError when they contradict each other or a file cannot be read, SettingsError for a wrong line of a file
 */
export async function readOptionFlags(
  flags: OptionFlags,
  operands: readonly string[],
  { env: ownEnv }: Pick<CliContext, 'env'>,
): Promise<FlaggedOptions> {
  const { name, label, selector, concurrencyKey, concurrencyLimit, onLimit, startAt } = flags;
  if (concurrencyKey === undefined && (concurrencyLimit !== undefined || onLimit !== undefined)) {
    throw usageError(`--${onLimit === undefined ? 'concurrency' : 'on'}-limit needs --concurrency-key`);
  }
  const given: FlaggedOptions = Object.assign(
    {},
    ...(await Promise.all(RUN_OPTIONS.map((option) => readFlag(option, flags)))),
  );
  const env = { ...(await readEnvFiles(flags.envFile ?? [], ownEnv)), ...given.env };
  const args = [...(given.args ?? []), ...operands];
  return {
    ...given,
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(args.length === 0 ? {} : { args }),
    ...(name === undefined ? {} : { name }),
    ...(label === undefined ? {} : { labels: Object.fromEntries(label.map(splitAssignment)) }),
    ...(selector === undefined ? {} : { selector: [...selector] }),
    ...(concurrencyKey === undefined
      ? {}
      : {
          concurrency: {
            key: concurrencyKey,
            limit: concurrencyLimit ?? 1,
            ...(onLimit === undefined ? {} : { on_limit: onLimit }),
          },
        }),
    ...(startAt === undefined ? {} : { start_at: startAt }),
  };
}

/** Collects tags from an option that may be given several times, each time with a list that commas separate. */
export function tags(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(',').flatMap((tag) => (tag.trim() === '' ? [] : [tag.trim()]))];
}

/** @throws CliError for a file that cannot be read, SettingsError for a wrong line */
async function readEnvFiles(
  files: readonly string[],
  env: Readonly<NodeJS.ProcessEnv>,
): Promise<Record<string, string>> {
  let all: Record<string, string> = {};
  for (const file of files)
    all = { ...all, ...parseEnvFile(await readBytes(file), file, env, variableProblem) };
  return all;
}

/** Without the name: a line in the wrong form may be a secret. */
function variableProblem(name: string): string | undefined {
  const { pattern, form } = VARIABLE_NAME;
  return pattern.test(name) ? undefined : `the name of the variable must have ${form}`;
}

/** The member of a request that the flag of an option gives; none without the flag. @throws CliError for a file that cannot be read */
async function readFlag(option: RunOption, flags: OptionFlags): Promise<object> {
  const value: unknown = Reflect.get(flags, toFlag(option).attributeName());
  if (value === undefined) return {};
  const words = Array.isArray(value) ? value.map(String) : [];
  switch (option.kind) {
    case 'map':
      return { [option.name]: Object.fromEntries(words.map(splitAssignment)) };
    case 'object-list':
      return { [option.name]: words.map(readSecretVariables) };
    case 'record-list':
      return { [option.name]: words.map(readMount) };
    case 'object-map':
      return { [option.name]: Object.fromEntries(await Promise.all(words.map(readRunFile))) };
    case 'integers':
      return { [option.name]: Object.fromEntries(words.map(readInteger)) };
    case 'list':
    case 'text':
    case 'integer':
      return { [option.name]: value };
  }
}

/** Reads `path=@file`, `path=@file,mode=0555` and `path={...}`. A file that may be executed here may be there. @throws CliError */
async function readRunFile(text: string): Promise<readonly [string, object]> {
  const [path, value] = splitAssignment(text);
  if (!value.startsWith('@')) return [path, parseObject(value, path)];
  const [, local = '', given] = /^@(.*?)(?:,mode=(0?[0-7]{3}))?$/s.exec(value) ?? [];
  const content = textOrBytes(await readBytes(local));
  const isExecutable = ((await stat(local)).mode & 0o100) !== 0;
  const mode = given ?? (isExecutable ? '0555' : undefined);
  const bytes = typeof content === 'string' ? { content } : { content_base64: content.toString('base64') };
  return [path, { ...bytes, ...(mode !== undefined && { mode }) }];
}

/** Reads `nofile=65536`. @throws CliError for anything else, such as soft and hard limits that Docker takes as `1:2` */
function readInteger(text: string): readonly [string, number] {
  const [name, value] = splitAssignment(text);
  if (/^-?[0-9]{1,15}$/.test(value)) return [name, Number(value)];
  throw usageError(`expected ${name}=N with one integer, which is the soft and the hard limit; -1: no limit`);
}

function parseObject(text: string, path: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (isJsonObject(value)) return value;
  } catch {
    // Reported below.
  }
  throw usageError(`expected ${path}=@FILE, or ${path}= and a JSON object`);
}

/** Reads `secret` and `prefix=secret`. */
function readSecretVariables(text: string): NonNullable<FlaggedOptions['secrets_from']>[number] {
  const at = text.indexOf('=');
  return at < 0 ? { secret: text } : { secret: text.slice(at + 1), prefix: text.slice(0, at) };
}

/** Reads `volume=results,path=/out,sub_path=a,ro`. The service checks the names. @throws CliError for a part without a value */
function readMount(text: string): NonNullable<FlaggedOptions['mounts']>[number] {
  const fields = text.split(',').map((part) => {
    if (part === 'ro') return ['read_only', true] as const;
    const [name, value] = splitAssignment(part);
    return [name, name === 'scratch_mb' && /^[0-9]{1,15}$/.test(value) ? Number(value) : value] as const;
  });
  return Object(Object.fromEntries(fields));
}
