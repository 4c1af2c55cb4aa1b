import { Module, type DynamicModule } from '@nestjs/common';
import { ConfigModule, registerAs } from '@nestjs/config';
import { Settings } from './settings.js';

/** Makes the settings of the process injectable everywhere, by the class `Settings`. */
@Module({})
// oxlint-disable-next-line typescript/no-extraneous-class -- Nest identifies a dynamic module by its class
export class SettingsModule {
  /**
   * @param settings the checked settings; every consumer gets this very instance. `ConfigService` reads the
   *   same values as `settings.<field>` and never looks into the environment itself.
   */
  static register(settings: Settings): DynamicModule {
    const namespace = registerAs('settings', () => settings);
    return {
      module: SettingsModule,
      global: true,
      imports: [
        ConfigModule.forRoot({
          isGlobal: true,
          ignoreEnvFile: true,
          ignoreEnvVars: true,
          skipProcessEnv: true,
          load: [namespace],
        }),
      ],
      providers: [{ provide: Settings, useExisting: namespace.KEY }],
      exports: [Settings],
    };
  }
}
