import { foreignWord } from '@longshore/common/foreign-words';
import { nearestName } from '@longshore/common/nearest-name';
import type { Command } from 'commander';
import { usageError, type CliError } from '../cli-error.js';

/** Hint at where arguments of the container stand. */
export const AFTER_DASHES =
  'flags of the program in the container stand after --, as in: run create IMAGE -- --epochs 4';

/** What stands on the command line besides the flags of the command. */
export interface Operands {
  /** Flags that the command does not have, with what follows them. */
  readonly unknown: readonly string[];
  /** Arguments of the container: what follows `--`. */
  readonly args: readonly string[];
}

/**
 * Tells arguments of the container from unknown flags, which Commander puts before them, with the `--` between.
 * @param words as the action gets them @param argv the command line
 */
export function splitOperands(words: readonly string[], argv: readonly string[]): Operands {
  if (argv.at(-words.length - 1) === '--') return { unknown: [], args: words };
  const at = words.indexOf('--');
  return at < 0 ? { unknown: words, args: [] } : { unknown: words.slice(0, at), args: words.slice(at + 1) };
}

/** The flags of fields of the API whose names differ. */
const FLAG_OF_FIELD: Readonly<Record<string, string>> = {
  args: '-- and the arguments behind it',
  image: 'the first argument',
  inputs: '--input',
  files: '--file',
  mounts: '--mount volume=NAME,path=/data',
  labels: '--label',
  constraints: '--cpu, --ram-mb or --gpus',
  concurrency: '--concurrency-key',
  depends_on: '--after',
  'timeouts.attempt_s': '--attempt-timeout',
  'timeouts.start_within_s': '--start-within',
  'retry_policy.backoff_s': '--backoff',
};

/** Fields whose notes are about their form in JSON. */
const FORMS: ReadonlySet<string> = new Set([
  'args',
  'command',
  'concurrency',
  'constraints.cpu',
  'depends_on',
  'env',
  'files',
  'labels',
  'selector',
]);

/** Short flags of `docker run` that are none here. */
const SHORT_FLAGS: Readonly<Record<string, string>> = { '-v': 'volumes', '-m': 'memory', '-u': 'uid' };

/**
 * The error for a word that is no flag of the command.
 * @param others other names that it may have been meant for, with what to say when it is none
 */
export function unknownWordError(word: string, command: Command, others: UnknownHelp): CliError {
  if (!word.startsWith('-'))
    return usageError(`unexpected ${JSON.stringify(word)}: put arguments of the container after --`);
  const [flag = ''] = word.split('=', 1);
  const unknown = `unknown option '${flag}'`;
  const name = SHORT_FLAGS[flag] ?? flag.replace(/^-+/, '');
  const foreign = foreignWord(name);
  if (foreign === undefined) {
    const own = command.options.flatMap(({ long }) => long ?? []);
    const near = nearestName(flag, [...own, ...others.names.map((one) => `--${one}`)]);
    return usageError(`${unknown}: ${near === undefined ? others.hint : `did you mean ${near}?`}`);
  }
  const { field, note = '' } = foreign;
  if (field === null) return usageError(`${unknown}: ${name} ${note}`);
  const here = FLAG_OF_FIELD[field] ?? `--${(field.split('.').at(-1) ?? field).replaceAll('_', '-')}`;
  return usageError(`${unknown}: here it is ${here}${note === '' || FORMS.has(field) ? '' : ` (${note})`}`);
}

/** What else an unknown word may be. */
export interface UnknownHelp {
  readonly names: readonly string[];
  readonly hint: string;
}
