/** How the text of a setting is converted. */
export type SettingKind = 'text' | 'integer' | 'number' | 'boolean';

/** One row of a settings table: everything that a program, its help and its documentation say about a setting. */
export interface Setting {
  /** Name of the field that holds the value. */
  readonly field: string;
  /** Environment variable. */
  readonly env: string;
  /** Long flag without the dashes; undefined for secrets, because process lists show arguments. */
  readonly flag: string | undefined;
  readonly kind: SettingKind;
  /** A secret's value is never printed. */
  readonly secret: boolean;
  /** Whether the program cannot start without it. */
  readonly required?: boolean;
  /** Text that is read when neither flag nor variable is given; undefined leaves the setting unset. */
  readonly default: string | undefined;
  /** Which values are allowed, worded to follow "must be". */
  readonly allowed: string;
  readonly description: string;
}

/** The settings cannot be used. `problems` holds one line per wrong setting, without any secret. */
export class SettingsError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'SettingsError';
  }
}
