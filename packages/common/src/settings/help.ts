import { packageVersion } from './package-version.js';
import type { Setting } from './setting.js';
import { readCommandLine } from './settings-reader.js';

function describe(setting: Setting): string {
  const { env, flag, kind, description, allowed } = setting;
  const value = kind === 'boolean' ? '' : ` <${kind === 'text' ? 'text' : 'number'}>`;
  const title = flag === undefined ? env : `--${flag}${value}, ${env}`;
  const fallback = setting.required === true ? 'Required.' : `Default: ${setting.default ?? 'unset'}.`;
  return `  ${title}\n      ${description}\n      Must be ${allowed}. ${fallback}`;
}

/** The text of `--help`. @param command how the program is started, with a placeholder for its flags */
export function helpText(command: string, table: readonly Setting[]): string {
  const flags = table.filter(({ flag }) => flag !== undefined);
  const secrets = table.filter(({ flag }) => flag === undefined);
  return [
    `Usage: ${command}`,
    '',
    'A flag takes precedence over its environment variable, a variable over the default.',
    'A file named .env in the working directory adds variables that the environment lacks.',
    '',
    'Flags and their variables:',
    ...flags.map(describe),
    '  --help, -h\n      Print this text.',
    '  --version\n      Print the version.',
    '',
    'Secrets, by variable only; NAME_FILE names a file with the value of NAME:',
    ...secrets.map(describe),
    '',
  ].join('\n');
}

/** @returns the text that `--help` or `--version` prints to standard output; undefined when neither is given */
export function answerWithoutStarting(
  command: string,
  table: readonly Setting[],
  argv: readonly string[],
): string | undefined {
  const { help, version } = readCommandLine(table, argv);
  if (help) return helpText(command, table);
  return version ? `${packageVersion()}\n` : undefined;
}
