import { Module, type DynamicModule } from '@nestjs/common';
import type { Tracing } from '@longshore/common/tracing/tracing';

/** Injection token of the process's `Tracing`; null when tracing is off. */
export const TRACING = Symbol('TRACING');

/** Provides `TRACING` everywhere. */
@Module({})
// oxlint-disable-next-line typescript/no-extraneous-class -- Nest identifies a dynamic module by its class
export class TracingModule {
  static register(tracing: Tracing | null): DynamicModule {
    return {
      module: TracingModule,
      global: true,
      providers: [{ provide: TRACING, useValue: tracing }],
      exports: [TRACING],
    };
  }
}
