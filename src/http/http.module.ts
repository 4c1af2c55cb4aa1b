import { Module } from '@nestjs/common';
import type { DynamicModule, InjectionToken, ModuleMetadata, Type } from '@nestjs/common';
import { APP_FILTER, APP_PIPE } from '@nestjs/core';
import { Drain } from './drain.js';
import { ErrorFilter } from './error.filter.js';
import { FailureClassifier } from './failure-classifier.js';
import { HeldRequests } from './held-requests.js';
import { HTTP_OPTIONS } from './http-options.js';
import type { HttpOptions } from './http-options.js';
import { RequestGuard } from './request.guard.js';
import { DtoValidationPipe } from './validation.pipe.js';

/** How the module gets what it needs: the options from a factory, as in any Nest provider. */
export interface HttpModuleSetup extends Pick<ModuleMetadata, 'imports'> {
  readonly useFactory: (...dependencies: never[]) => HttpOptions;
  readonly inject?: readonly InjectionToken[];
  /** Says what failures from below mean; its dependencies come from `imports` or global modules. */
  readonly classifier?: Type<FailureClassifier>;
}

/**
 * What every endpoint shares: the error filter and the validation pipe, bound for the whole application,
 * the drain, and the requests that are held open. The application binds `RequestGuard` itself, after its guards of authentication:
 * `{ provide: APP_GUARD, useExisting: RequestGuard }`.
 */
@Module({})
export class HttpModule {
  static forRoot({ imports = [], useFactory, inject = [], classifier }: HttpModuleSetup): DynamicModule {
    return {
      module: HttpModule,
      global: true,
      imports,
      providers: [
        { provide: HTTP_OPTIONS, useFactory, inject: [...inject] },
        { provide: APP_FILTER, useClass: ErrorFilter },
        { provide: APP_PIPE, useClass: DtoValidationPipe },
        ...(classifier === undefined ? [] : [{ provide: FailureClassifier, useClass: classifier }]),
        RequestGuard,
        Drain,
        HeldRequests,
      ],
      exports: [
        HTTP_OPTIONS,
        RequestGuard,
        Drain,
        HeldRequests,
        ...(classifier === undefined ? [] : [FailureClassifier]),
      ],
    };
  }
}
