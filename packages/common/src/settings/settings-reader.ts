import { quote, readCommandLine } from './command-line.js';
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
 * variable counts as unset.
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
      const text = flagText ?? (env[setting.env] || setting.default);
      const name = flagText === undefined ? setting.env : `--${setting.flag} (${setting.env})`;
      this.#sources.set(setting.field, { setting, text, name });
      if (setting.required && text === undefined) {
        this.#problems.push(`${name} must be set to ${setting.allowed}`);
      }
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
