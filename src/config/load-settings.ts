import { plainToInstance } from 'class-transformer';
import { validateSync } from 'class-validator';
import { SettingsReader } from '@longshore/common/settings/settings-reader';
import { SETTING_KEYS } from './setting-keys.js';
import { Settings } from './settings.js';

/**
 * Builds and validates the settings from the arguments after the script's name and the environment.
 * @throws SettingsError with a line for every wrong setting, not only the first
 */
export function loadSettings(argv: readonly string[], env: Readonly<NodeJS.ProcessEnv>): Settings {
  const reader = new SettingsReader(SETTING_KEYS, argv, env);
  const values = Object.fromEntries(SETTING_KEYS.map(({ field }) => [field, reader.value(field)]));
  const settings = plainToInstance(Settings, values);
  const errors = validateSync(settings);
  for (const { field } of SETTING_KEYS) {
    const error = errors.find(({ property }) => property === field);
    if (error !== undefined) reader.refuse(field, error.constraints?.['hasApiKeys']);
  }
  reader.throwIfRefused();
  return Object.freeze(settings);
}
