import { Module, type DynamicModule } from '@nestjs/common';
import { ConfigModule, registerAs } from '@nestjs/config';
import { plainToInstance } from 'class-transformer';
import { validateSync } from 'class-validator';
import { parseEnvFile } from '@longshore/common/settings/env-file';
import { secretFile } from '@longshore/common/settings/secret-file';
import { SettingsReader } from '@longshore/common/settings/settings-reader';
import { SETTING_KEYS, Settings } from './settings.js';

/**
 * Builds and validates the settings from the arguments after the script's name and the environment.
 * @throws SettingsError with a line for every wrong setting, not only the first
 */
export function loadSettings(argv: readonly string[], env: Readonly<NodeJS.ProcessEnv>): Settings {
  const reader = new SettingsReader(SETTING_KEYS, argv, env);
  const values = Object.fromEntries(SETTING_KEYS.map(({ field }) => [field, reader.value(field)]));
  const databaseUrlFile = secretFile(env, 'DATABASE_URL');
  const settings = plainToInstance(Settings, {
    ...values,
    ...(databaseUrlFile !== undefined && { databaseUrlFile }),
  });
  const errors = validateSync(settings);
  for (const { field } of SETTING_KEYS) {
    const error = errors.find(({ property }) => property === field);
    if (error === undefined) continue;
    const { hasKeys, isDatabaseUrl, hasNoFault } = error.constraints ?? {};
    reader.refuse(field, hasKeys ?? isDatabaseUrl ?? hasNoFault);
  }
  reader.throwIfRefused();
  return Object.freeze(settings);
}

/**
 * The configuration namespace `settings`. An application registers the instance that its program has loaded under this
 * namespace; outside an application the factory loads one.
 */
export const settingsConfig = registerAs('settings', (): Settings =>
  loadSettings(process.argv.slice(2), process.env),
);

/** The loaded settings, and the module that provides them. */
export interface Configuration {
  readonly settings: Settings;
  /** Provides `ConfigService`, `settingsConfig` and `Settings` with the values that were loaded. */
  readonly settingsModule: DynamicModule;
}

/** Makes the settings of the process injectable everywhere. */
@Module({})
// oxlint-disable-next-line typescript/no-extraneous-class -- Nest identifies a dynamic module by its class
export class SettingsModule {
  /**
   * Loads flags, environment and the file `.env` of the working directory, in this order of precedence. `ConfigService`
   * knows every setting by its variable's name, converted and with its default, and every other variable as text.
   * The variables of the file are added to `process.env`.
   * @param argv arguments after the script's name
   * @param env variables to use in place of those of the file and of the environment
   * @throws SettingsError with a line for every wrong setting, or for every wrong line of the file
   */
  static async load(argv: readonly string[], env?: Readonly<NodeJS.ProcessEnv>): Promise<Configuration> {
    let settings: Settings | undefined;
    const values: Record<string, unknown> = {};
    const config = await ConfigModule.forRoot({
      isGlobal: true,
      skipProcessEnv: true,
      ignoreEnvFile: env !== undefined,
      parser: (bytes) => parseEnvFile(bytes, '.env', process.env),
      validatePredefined: env === undefined,
      validate: (found) => {
        const variables = withoutEmpty(env ?? found);
        settings = loadSettings(argv, variables);
        Object.assign(values, variables);
        for (const { env: name, field } of SETTING_KEYS) values[name] = settings[field];
        return withoutEmpty(found);
      },
      load: [() => values, registerAs('settings', () => settings ?? {})],
    });
    if (settings === undefined) throw new Error('@nestjs/config did not validate the settings');
    return {
      settings,
      settingsModule: {
        module: SettingsModule,
        global: true,
        imports: [config],
        providers: [{ provide: Settings, useExisting: settingsConfig.KEY }],
        exports: [Settings],
      },
    };
  }
}

/** An empty variable counts as unset. */
function withoutEmpty(variables: Readonly<NodeJS.ProcessEnv>): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(variables).filter(([, text]) => text !== ''));
}
