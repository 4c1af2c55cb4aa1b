import { Module, type DynamicModule } from '@nestjs/common';
import type { Tracing } from '@longshore/common/tracing/tracing';

/** Injection token of the process's `Tracing`; null when it is switched off. */
export const TRACING = Symbol('TRACING');

/** Makes the tracing of the process injectable everywhere, by `TRACING`. */
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
