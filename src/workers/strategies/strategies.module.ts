import { Module, type DynamicModule, type Type } from '@nestjs/common';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { Settings } from '../../config/settings.js';
import { builtInStrategies, exportedStrategies, SCHEDULER, selectStrategy } from './scheduler.js';

@Module({})
export class StrategiesModule {
  /**
   * @param extensions modules whose exported strategies can be selected too
   * @throws SettingsError, once the application is created, unless exactly one strategy has the name in the settings
   */
  static register(extensions: readonly Type[]): DynamicModule {
    return {
      module: StrategiesModule,
      global: true,
      imports: [...extensions],
      providers: [
        {
          provide: SCHEDULER,
          inject: [Settings, ...extensions.flatMap(exportedStrategies)],
          useFactory: (settings: Settings, ...added: SchedulingStrategy[]) =>
            selectStrategy([...builtInStrategies(settings), ...added], settings.scheduler),
        },
      ],
      exports: [SCHEDULER],
    };
  }
}
