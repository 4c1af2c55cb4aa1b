import { Module } from '@nestjs/common';
import type { CanActivate, DynamicModule, InjectionToken, ModuleMetadata, Type } from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_PIPE } from '@nestjs/core';
import { Drain } from './server/drain.js';
import { ErrorFilter } from './errors/error.filter.js';
import { FailureClassifier } from './errors/failure-classifier.js';
import { HeldRequests } from './server/held-requests.js';
import { HTTP_OPTIONS } from './http-options.js';
import type { HttpOptions } from './http-options.js';
import { RequestGuard } from './request/request.guard.js';
import { DtoValidationPipe } from './validation/validation.pipe.js';

/** How the module gets what it needs: the options from a factory, as in any Nest provider. */
export interface HttpModuleSetup extends Pick<ModuleMetadata, 'imports'> {
  readonly useFactory: (...dependencies: never[]) => HttpOptions;
  readonly inject?: readonly InjectionToken[];
  /** Stand before every route, in this order; they come from `imports` or global modules. */
  readonly guards: readonly Type<CanActivate>[];
  /** Says what failures from below mean; its dependencies come from `imports` or global modules. */
  readonly classifier?: Type<FailureClassifier>;
}

/**
 * What every endpoint shares: the guards, the last of which reads the request, the validation pipe and the error filter,
 * bound for the whole application; the drain, and the requests that are held open.
 */
@Module({})
export class HttpModule {
  static forRoot({
    imports = [],
    useFactory,
    inject = [],
    guards,
    classifier,
  }: HttpModuleSetup): DynamicModule {
    return {
      module: HttpModule,
      global: true,
      imports,
      providers: [
        { provide: HTTP_OPTIONS, useFactory, inject: [...inject] },
        ErrorFilter,
        DtoValidationPipe,
        { provide: APP_FILTER, useExisting: ErrorFilter },
        { provide: APP_PIPE, useExisting: DtoValidationPipe },
        ...[...guards, RequestGuard].map((guard) => ({ provide: APP_GUARD, useExisting: guard })),
        ...(classifier === undefined ? [] : [{ provide: FailureClassifier, useClass: classifier }]),
        RequestGuard,
        Drain,
        HeldRequests,
      ],
      exports: [HTTP_OPTIONS, Drain, HeldRequests, ...(classifier === undefined ? [] : [FailureClassifier])],
    };
  }
}
