import { parseArgs, type ParseArgsConfig } from 'node:util';
import { SETTING_KEYS, type SettingField } from './setting-keys.js';

/** What the arguments of the service say. */
export interface CommandLine {
  /** Text of each flag that was given; a bare boolean flag reads `true`. The last one wins. */
  readonly values: ReadonlyMap<SettingField, string>;
  readonly help: boolean;
  readonly version: boolean;
  /** One line per argument that cannot be understood; never holds the value of a secret. */
  readonly problems: readonly string[];
}

type Options = NonNullable<ParseArgsConfig['options']>;

/** The flag a secret would have: known only in order to be refused without echoing its value. */
function forbiddenFlag(env: string): string {
  return env
    .toLowerCase()
    .replace(/^service_/, '')
    .replaceAll('_', '-');
}

function parseOptions(): Options {
  const options: Options = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean' },
  };
  for (const key of SETTING_KEYS) {
    options[key.flag ?? forbiddenFlag(key.env)] = { type: key.kind === 'boolean' ? 'boolean' : 'string' };
  }
  return options;
}

/** Shows a text inside a problem: quoted, control characters escaped, cut to a readable length. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}...` : text);
}

/** Reads the arguments after the script's name. Collects every problem instead of stopping at the first. */
export function readCommandLine(argv: readonly string[]): CommandLine {
  const { tokens } = parseArgs({
    args: [...argv],
    options: parseOptions(),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<SettingField, string>();
  const problems: string[] = [];
  let help = false;
  let version = false;
  // parseArgs cannot know that an unknown flag takes a value: what follows one belongs to it and may be a secret.
  let afterUnknownFlag = false;

  for (const token of tokens) {
    if (token.kind !== 'option') {
      if (token.kind === 'positional' && !afterUnknownFlag) {
        problems.push(`unexpected argument ${quote(token.value)}`);
      }
      afterUnknownFlag = false;
      continue;
    }
    afterUnknownFlag = false;
    if (token.name === 'help' || token.name === 'h') {
      help = true;
    } else if (token.name === 'version') {
      version = true;
    } else {
      const key = SETTING_KEYS.find((candidate) => candidate.flag === token.name);
      const secret = SETTING_KEYS.find(
        (candidate) => candidate.flag === undefined && forbiddenFlag(candidate.env) === token.name,
      );
      if (secret !== undefined) {
        problems.push(`--${token.name} is not a flag, since process lists show arguments: set ${secret.env}`);
      } else if (key === undefined) {
        afterUnknownFlag = !token.inlineValue;
        problems.push(`unknown flag ${token.rawName}; --help lists the flags`);
      } else if (key.kind === 'boolean') {
        values.set(key.field, token.value ?? 'true');
      } else if (token.value === undefined || (!token.inlineValue && /^-[^\d.]/.test(token.value))) {
        problems.push(`--${token.name} (${key.env}) needs a value: it must be ${key.allowed}`);
      } else {
        values.set(key.field, token.value);
      }
    }
  }
  return { values, help, version, problems };
}
