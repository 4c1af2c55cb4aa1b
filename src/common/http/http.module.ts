import { Global, Module } from '@nestjs/common';
import { APP_FILTER, APP_PIPE } from '@nestjs/core';
import { ErrorFilter } from './errors/error.filter.js';
import { BodyQuota } from './request/body-quota.js';
import { RequestGuard } from './request/request.guard.js';
import { Drain } from './server/drain.js';
import { HeldRequests } from './server/held-requests.js';
import { DtoValidationPipe } from './validation/validation.pipe.js';

/** What every route shares. The application registers RequestGuard globally, after the guards of authentication. */
@Global()
@Module({
  providers: [
    { provide: APP_FILTER, useClass: ErrorFilter },
    { provide: APP_PIPE, useClass: DtoValidationPipe },
    RequestGuard,
    BodyQuota,
    Drain,
    HeldRequests,
  ],
  exports: [RequestGuard, BodyQuota, Drain, HeldRequests],
})
export class HttpModule {}
