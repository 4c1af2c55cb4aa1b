import { readFile } from 'node:fs/promises';
import { parseEnvFile } from '@longshore/common/settings/env-file';
import type { Command } from 'commander';
import { usageError } from './cli-error.js';
import { type CliContext, integerOption, several, time } from './command-kit.js';
import { splitAssignment } from './inputs.js';
import { oneLine } from './style.js';

/** Flags for what a run may also say: its environment, its command, its secrets, where and when it may run. */
export interface RunOptionFlags {
  readonly env?: readonly string[];
  readonly envFile?: readonly string[];
  readonly command?: readonly string[];
  readonly arg?: readonly string[];
  readonly secret?: readonly string[];
  readonly imagePullSecret?: string;
  readonly selector?: readonly string[];
  readonly concurrencyKey?: string;
  readonly concurrencyLimit?: number;
  /** ISO 8601, or a span that the service adds to its time. */
  readonly startAt?: string;
  readonly retryOn?: readonly string[];
}

/** Fields of a request that creates a run; a field that no flag gives is absent. */
export interface RunOptions {
  readonly env?: Record<string, string>;
  readonly command?: string[];
  readonly args?: string[];
  readonly secrets?: Record<string, string>;
  readonly image_pull_secret?: string;
  readonly selector?: string[];
  readonly concurrency?: { readonly key: string; readonly limit: number };
  readonly start_at?: string;
}

/** Adds the flags of {@link RunOptionFlags}, and the arguments of the container after `--`. */
export function takesRunOptions(command: Command): Command {
  return command
    .argument('[args...]', 'after --: arguments in place of those of the image')
    .option('-e, --env <name=value>', 'an environment variable of the container', several)
    .option(
      '--env-file <file>',
      'environment variables, a name=value in each line as for docker run; --env overrides',
      several,
    )
    .option('--command <word>', "a word of the command in place of the image's entrypoint", several)
    .option('--arg <word>', 'an argument, as after --', several)
    .option('--secret <variable=secret>', 'an environment variable with the value of a secret', several)
    .option('--image-pull-secret <secret>', 'secret with the login for the registry of the image')
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
    .option('--start-at <time>', 'not before: 10m, 2h, or ISO 8601 with a zone', time)
    .option(
      '--retry-on <causes>',
      'retry only these failures: error, exit, oom, timeout, image, exit:75, exit:100-110',
      tags,
    );
}

/**
 * Reads the options from their flags.
 * @param operands what stands on the command line besides flags, without the image or definition
 * @throws CliError when they contradict each other or a file cannot be read, SettingsError for a wrong line of a file
 */
export async function readRunOptions(
  flags: RunOptionFlags,
  operands: readonly string[],
  { argv, env: ownEnv }: Pick<CliContext, 'argv' | 'env'>,
): Promise<RunOptions> {
  // A word that a flag with several values left over must not become an argument of the container.
  if (operands.length > 0 && argv.at(-operands.length - 1) !== '--') {
    throw usageError(`unexpected ${JSON.stringify(operands[0])}: put arguments of the container after --`);
  }
  const { command, imagePullSecret, selector, concurrencyKey, concurrencyLimit, startAt } = flags;
  if (concurrencyLimit !== undefined && concurrencyKey === undefined) {
    throw usageError('--concurrency-limit needs --concurrency-key');
  }
  const env = { ...(await readEnvFiles(flags.envFile ?? [], ownEnv)), ...pairs(flags.env) };
  const secrets = pairs(flags.secret);
  const args = [...(flags.arg ?? []), ...operands];
  return {
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(command === undefined ? {} : { command: [...command] }),
    ...(args.length === 0 ? {} : { args }),
    ...(Object.keys(secrets).length === 0 ? {} : { secrets }),
    ...(imagePullSecret === undefined ? {} : { image_pull_secret: imagePullSecret }),
    ...(selector === undefined ? {} : { selector: [...selector] }),
    ...(concurrencyKey === undefined
      ? {}
      : { concurrency: { key: concurrencyKey, limit: concurrencyLimit ?? 1 } }),
    ...(startAt === undefined ? {} : { start_at: startAt }),
  };
}

/** Collects tags from an option that may be given several times, each time with a list that commas separate. */
export function tags(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(',').flatMap((tag) => (tag.trim() === '' ? [] : [tag.trim()]))];
}

/** A list of words as a shell would read it. */
export function shellWords(words: readonly string[]): string {
  return words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .map(oneLine)
    .join(' ');
}

/** @throws CliError for a file that cannot be read, SettingsError for a wrong line */
async function readEnvFiles(
  files: readonly string[],
  env: Readonly<NodeJS.ProcessEnv>,
): Promise<Record<string, string>> {
  let all: Record<string, string> = {};
  for (const file of files) {
    const bytes = await readFile(file).catch((error: unknown) => {
      throw usageError(`cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`);
    });
    all = { ...all, ...parseEnvFile(bytes, file, env) };
  }
  return all;
}

function pairs(assignments: readonly string[] = []): Record<string, string> {
  return Object.fromEntries(assignments.map(splitAssignment));
}
