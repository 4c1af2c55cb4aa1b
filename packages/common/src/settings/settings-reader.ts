import { quote, readCommandLine } from './command-line.js';
import { SettingsError, type Setting, type SettingKind } from './setting.js';

/** A setting's value, converted by its kind: NaN for text that is not a number, the text itself if it is no boolean. */
export type SettingValue = string | number | boolean;

/** The text of one setting and where it came from. */
interface Source {
  readonly setting: Setting;
  readonly text: string | undefined;
  /** The flag or variable, as a problem line names it. */
  readonly name: string;
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['1', true],
  ['yes', true],
  ['on', true],
  ['false', false],
  ['0', false],
  ['no', false],
  ['off', false],
]);

/**
 * Reads the settings of a table: a flag takes precedence over its variable, the variable over the default. An empty
 * variable counts as unset, because shells and compose files cannot always remove one.
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
      const source = sourceOf(setting, values.get(setting.field), env);
      this.#sources.set(setting.field, source);
      if (setting.required === true && source.text === undefined) {
        this.#problems.push(`${source.name} must be set to ${setting.allowed}`);
      }
    }
  }

  /** The converted value; undefined when the setting is unset. */
  value(field: Field): SettingValue | undefined {
    const source = this.#sources.get(field);
    return source?.text === undefined ? undefined : convert(source.setting.kind, source.text);
  }

  /** Adds a problem line for a value that is not allowed. */
  refuse(field: Field, reason?: string): void {
    const source = this.#sources.get(field);
    if (source === undefined) return;
    const { setting, text = '', name } = source;
    const detail = reason === undefined ? '' : `: ${reason}`;
    const isHidden = setting.secret || /:.*@/s.test(text);
    const value = isHidden ? ' (the value is not shown)' : `, got ${quote(text)}`;
    this.#problems.push(`${name} must be ${setting.allowed}${detail}${value}`);
  }

  /** @throws SettingsError with a line for every problem found so far */
  throwIfRefused(): void {
    if (this.#problems.length > 0) throw new SettingsError(this.#problems);
  }
}

function sourceOf(setting: Setting, flagText: string | undefined, env: Readonly<NodeJS.ProcessEnv>): Source {
  if (flagText !== undefined) {
    return { setting, text: flagText, name: `--${setting.flag} (${setting.env})` };
  }
  const text = env[setting.env];
  return { setting, text: text === undefined || text === '' ? setting.default : text, name: setting.env };
}

function convert(kind: SettingKind, text: string): SettingValue {
  switch (kind) {
    case 'integer':
      return /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    case 'number':
      return /^-?\d{1,15}(?:\.\d{1,15})?$/.test(text) ? Number(text) : Number.NaN;
    case 'boolean':
      return BOOLEANS.get(text.trim().toLowerCase()) ?? text;
    case 'text':
      return text;
  }
  return kind satisfies never;
}
