import { Module, type DynamicModule, type Type } from '@nestjs/common';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { Settings } from '../../settings/settings.js';
import { DirectStrategy } from './direct.strategy.js';
import { exportedStrategies } from './exported-strategies.js';
import { FitStrategy } from './fit.strategy.js';
import { SCHEDULER, selectStrategy } from './scheduler.js';

/** The scheduling strategies that can be selected, and the one that is. */
@Module({})
export class StrategiesModule {
  /**
   * @param extensions modules whose exported strategies can be selected too
   * @throws UnknownScheduler, once the application is made, unless exactly one strategy has the name in the settings
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
          useFactory: ({ scheduler, fitReserveAfter }: Settings, ...added: SchedulingStrategy[]) =>
            selectStrategy([new DirectStrategy(), new FitStrategy(fitReserveAfter), ...added], scheduler),
        },
      ],
      exports: [SCHEDULER],
    };
  }
}
