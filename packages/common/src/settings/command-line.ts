import { parseArgs, type ParseArgsConfig } from 'node:util';
import type { Setting } from './setting.js';

/** The arguments of a program. */
export interface CommandLine {
  /** Text of each flag by the setting's field; `true` for a boolean flag without a value. The last one wins. */
  readonly values: ReadonlyMap<string, string>;
  readonly help: boolean;
  readonly version: boolean;
  /** One line per invalid argument, without any secret. */
  readonly problems: readonly string[];
}

/** The flag that a secret would have, which is rejected without printing its value. */
function forbiddenFlag(env: string): string {
  return env
    .toLowerCase()
    .replace(/^service_/, '')
    .replaceAll('_', '-');
}

function parseOptions(table: readonly Setting[]): NonNullable<ParseArgsConfig['options']> {
  const options: NonNullable<ParseArgsConfig['options']> = {
    help: { type: 'boolean', short: 'h' },
    version: { type: 'boolean' },
  };
  for (const { flag, env, kind } of table) {
    options[flag ?? forbiddenFlag(env)] = { type: kind === 'boolean' ? 'boolean' : 'string' };
  }
  return options;
}

/** Formats a text for a message: quoted, escaped, and shortened. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}...` : text);
}

/** Reads the arguments after the script's name. */
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
  // The argument after an unknown flag may be its value, and a secret.
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
