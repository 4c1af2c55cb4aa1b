import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readCommandLine } from './command-line.js';
import { SETTING_KEYS, type SettingKey } from './setting-keys.js';

/** Version in the package.json that this file belongs to. */
export function packageVersion(): string {
  let folder = import.meta.dirname;
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder);
    if (parent === folder) {
      return 'unknown';
    }
    folder = parent;
  }
  const content: unknown = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const known = typeof content === 'object' && content !== null && 'version' in content;
  return known ? String(content.version) : 'unknown';
}

function describe(key: SettingKey): string {
  const value = key.kind === 'boolean' ? '' : ` <${key.kind === 'text' ? 'text' : 'number'}>`;
  const title = key.flag === undefined ? key.env : `--${key.flag}${value}, ${key.env}`;
  const fallback = key.default === undefined ? 'unset' : key.default;
  return `  ${title}\n      ${key.description}\n      Must be ${key.allowed}. Default: ${fallback}.`;
}

/** What `--help` prints: every flag and variable of the settings table. */
export function helpText(): string {
  const flags = SETTING_KEYS.filter((key) => key.flag !== undefined);
  const variables = SETTING_KEYS.filter((key) => key.flag === undefined);
  return [
    'Usage: npm start -- [flags]',
    '',
    'A flag wins over its environment variable, a variable over the default.',
    'A file named .env in the working directory adds variables that the environment lacks.',
    '',
    'Flags and their variables:',
    ...flags.map(describe),
    '  --help, -h\n      Print this text.',
    '  --version\n      Print the version.',
    '',
    'Secrets, by variable only:',
    ...variables.map(describe),
    '',
  ].join('\n');
}

/**
 * Answers `--help` and `--version`, which are to be printed to standard output before the settings are looked at.
 * @returns the text to print, or undefined when the service is to start.
 */
export function answerWithoutStarting(argv: readonly string[]): string | undefined {
  const { help, version } = readCommandLine(argv);
  if (help) {
    return helpText();
  }
  return version ? `${packageVersion()}\n` : undefined;
}
