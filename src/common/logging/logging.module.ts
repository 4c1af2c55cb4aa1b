import { Module, type DynamicModule } from '@nestjs/common';
import { Log } from './logger.js';

/** Provides `Log` everywhere. */
@Module({})
// oxlint-disable-next-line typescript/no-extraneous-class -- Nest identifies a dynamic module by its class
export class LoggingModule {
  static register(log: Log): DynamicModule {
    return {
      module: LoggingModule,
      global: true,
      providers: [{ provide: Log, useValue: log }],
      exports: [Log],
    };
  }
}
