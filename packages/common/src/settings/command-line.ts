import { parseArgs, type ParseArgsConfig } from 'node:util';
import type { Setting } from './setting.js';

/** The arguments of a program, checked against its settings table. */
export interface CommandLine {
  /** Text of each flag that was given, by the setting's field; a bare boolean flag reads `true`. The last one wins. */
  readonly values: ReadonlyMap<string, string>;
  readonly help: boolean;
  readonly version: boolean;
  /** One line per argument that is not understood; never holds the value of a secret. */
  readonly problems: readonly string[];
}

type Options = NonNullable<ParseArgsConfig['options']>;

/** The flag that a secret would have. It is known only so that it can be refused without printing its value. */
function forbiddenFlag(env: string): string {
  return env
    .toLowerCase()
    .replace(/^service_/, '')
    .replaceAll('_', '-');
}

function parseOptions(table: readonly Setting[]): Options {
  const options: Options = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean' },
  };
  for (const { flag, env, kind } of table) {
    options[flag ?? forbiddenFlag(env)] = { type: kind === 'boolean' ? 'boolean' : 'string' };
  }
  return options;
}

/** Formats a text for a problem line: quoted, control characters escaped, cut to a readable length. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}...` : text);
}

/** Reads the arguments after the script's name. Collects every problem instead of stopping at the first. */
export function readCommandLine(table: readonly Setting[], argv: readonly string[]): CommandLine {
  const { tokens } = parseArgs({
    args: [...argv],
    options: parseOptions(table),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string>();
  const problems: string[] = [];
  let help = false;
  let version = false;
  // parseArgs does not know whether an unknown flag takes a value: the next argument may be its value, and a secret.
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
      const setting = table.find((candidate) => candidate.flag === token.name);
      const secret = table.find(
        (candidate) => candidate.flag === undefined && forbiddenFlag(candidate.env) === token.name,
      );
      if (secret !== undefined) {
        problems.push(`--${token.name} is not a flag, since process lists show arguments: set ${secret.env}`);
      } else if (setting === undefined) {
        afterUnknownFlag = !token.inlineValue;
        problems.push(`unknown flag ${token.rawName}; --help lists the flags`);
      } else if (setting.kind === 'boolean') {
        values.set(setting.field, token.value ?? 'true');
      } else if (token.value === undefined || (!token.inlineValue && /^-[^\d.]/.test(token.value))) {
        problems.push(`--${token.name} (${setting.env}) needs a value: it must be ${setting.allowed}`);
      } else {
        values.set(setting.field, token.value);
      }
    }
  }
  return { values, help, version, problems };
}
