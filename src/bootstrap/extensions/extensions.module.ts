import { Module, type DynamicModule, type Type } from '@nestjs/common';
import { Settings } from '../../config/settings.js';
import { RunsModule } from '../../runs/runs.module.js';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import {
  builtInStrategies,
  exportedStrategies,
  SCHEDULER,
  selectStrategy,
} from '../../claims/strategies/scheduler.js';

/**
 * Imports the modules of extensions, makes the providers that RunsModule exports injectable in them, and provides the
 * scheduling strategy that the settings select.
 */
@Module({})
export class ExtensionsModule {
  /**
   * @param modules their exported strategies can be selected too
   * @throws SettingsError, once the application is created, unless exactly one strategy has the name in the settings
   */
  static register(modules: readonly Type[]): DynamicModule {
    return {
      module: ExtensionsModule,
      global: true,
      imports: [RunsModule, ...modules],
      providers: [
        {
          provide: SCHEDULER,
          inject: [Settings, ...modules.flatMap(exportedStrategies)],
          useFactory: (settings: Settings, ...added: SchedulingStrategy[]) =>
            selectStrategy([...builtInStrategies(settings), ...added], settings.scheduler),
        },
      ],
      exports: [RunsModule, SCHEDULER],
    };
  }
}
