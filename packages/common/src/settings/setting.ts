/** How the text of a setting is converted. */
export type SettingKind = 'text' | 'integer' | 'number' | 'boolean';

/** One row of a settings table, from which a program reads its settings and prints its help. */
export interface Setting {
  /** Name of the field that holds the value. */
  readonly field: string;
  /** Environment variable. */
  readonly env: string;
  /** Long flag without the dashes. None marks a secret: process lists show arguments, and its value is never printed. */
  readonly flag?: string;
  readonly kind: SettingKind;
  /** Whether the program cannot start without it. */
  readonly required?: boolean;
  /** Text to read when neither flag nor variable is set. */
  readonly default?: string;
  /** Allowed values, worded to follow "must be". */
  readonly allowed: string;
  readonly description: string;
}

/** The settings are invalid. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';

  /** @param problems one line per invalid setting, without any secret */
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
  }
}
