import { parseArgs, type ParseArgsConfig } from 'node:util';
import { readSecret, secretFile } from './secret-file.js';
import { SettingsError, type Setting, type SettingKind } from './setting.js';

/** A converted value. Invalid text becomes NaN for a number, and stays text for a boolean. */
export type SettingValue = string | number | boolean;

interface Source {
  readonly setting: Setting;
  readonly text: string | undefined;
  /** The flag or variable, for messages. */
  readonly name: string;
}

const TRUE: readonly string[] = ['true', '1', 'yes', 'on'];
const FALSE: readonly string[] = ['false', '0', 'no', 'off'];

/**
 * Reads the settings of a table. A flag takes precedence over its variable, the variable over the default. An empty
 * variable counts as unset. A secret is read as {@link readSecret} says.
 */
export class SettingsReader<Field extends string> {
  readonly #sources = new Map<string, Source>();
  readonly #problems: string[];

  constructor(
    table: readonly (Setting & { readonly field: Field })[],
    argv: readonly string[],
    env: Readonly<NodeJS.ProcessEnv>,
  ) {
    const { values, problems } = readCommandLine(table, argv);
    this.#problems = [...problems];
    for (const setting of table) {
      const flagText = values.get(setting.field);
      const text = flagText ?? (this.#variable(setting, env) || setting.default);
      const name = flagText === undefined ? setting.env : `--${setting.flag} (${setting.env})`;
      this.#sources.set(setting.field, { setting, text, name });
      if (setting.required && text === undefined && secretFile(env, setting.env) === undefined) {
        this.#problems.push(`${name} must be set to ${setting.allowed}`);
      }
    }
  }

  #variable({ env: name, flag }: Setting, env: Readonly<NodeJS.ProcessEnv>): string | undefined {
    try {
      if (flag === undefined) return readSecret(env, name);
      if (env[`${name}_FILE`])
        throw new SettingsError([`${name}_FILE is not read, because ${name} is no secret; set ${name}`]);
      return env[name];
    } catch (error) {
      if (!(error instanceof SettingsError)) throw error;
      this.#problems.push(...error.problems);
      return undefined;
    }
  }

  /** The converted value; undefined when the setting is unset. */
  value(field: Field): SettingValue | undefined {
    const source = this.#sources.get(field);
    return source?.text === undefined ? undefined : convert(source.setting.kind, source.text);
  }

  /**
   * What a value means, or `unset`. Refuses a value that means nothing.
   * @param parse answers undefined for a value that is not allowed
   */
  read<T, U>(field: Field, parse: (value: SettingValue) => T | undefined, unset: U): T | U {
    const value = this.value(field);
    if (value === undefined) return unset;
    const parsed = parse(value);
    if (parsed === undefined) this.refuse(field);
    return parsed ?? unset;
  }

  /** Adds a problem line for a value that is not allowed. */
  refuse(field: Field, reason?: string): void {
    const source = this.#sources.get(field);
    if (source === undefined) return;
    const { setting, text = '', name } = source;
    const detail = reason === undefined ? '' : `: ${reason}`;
    const isSecret = setting.flag === undefined || /:.*@/s.test(text);
    const value = isSecret ? ' (the value is not shown)' : `, got ${quote(text)}`;
    this.#problems.push(`${name} must be ${setting.allowed}${detail}${value}`);
  }

  /** @throws SettingsError with every problem found so far */
  throwIfRefused(): void {
    if (this.#problems.length > 0) throw new SettingsError(this.#problems);
  }
}

function convert(kind: SettingKind, text: string): SettingValue {
  switch (kind) {
    case 'integer':
      return /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    case 'number':
      return /^-?\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : Number.NaN;
    case 'boolean':
      return toBoolean(text.trim().toLowerCase()) ?? text;
    case 'text':
      return text;
  }
  return kind satisfies never;
}

function toBoolean(word: string): boolean | undefined {
  if (TRUE.includes(word)) return true;
  return FALSE.includes(word) ? false : undefined;
}

/** Takes a value that matches the pattern as its text. */
export function matching(pattern: RegExp): (value: SettingValue) => string | undefined {
  return (value) => (pattern.test(String(value)) ? String(value) : undefined);
}

/** Takes a number between the two, inclusive. */
export function within(min: number, max: number): (value: SettingValue) => number | undefined {
  return (value) => (typeof value === 'number' && value >= min && value <= max ? value : undefined);
}

/** The parts of a list, without blanks around them and without empty ones. */
export function partsOf(list: SettingValue, separator = ','): string[] {
  const parts = String(list).split(separator);
  return parts.map((part) => part.trim()).filter((part) => part !== '');
}

/** The arguments of a program. */
interface CommandLine {
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
function quote(text: string): string {
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
