import { Catch, Inject, Logger } from '@nestjs/common';
import type { ArgumentsHost, ExceptionFilter } from '@nestjs/common';
import type { Request, Response } from 'express';
import { Settings } from '../../../config/settings.js';
import { Refusals } from '../../quotas/quota.js';
import { bodyStates, ClientGone } from '../request/body-reader.js';
import { requestIdOf } from '../request/request-id.js';
import { DomainError } from '../../errors/domain-error.js';
import { toErrorResponse, sendError } from './error-response.js';

/** Sends the response to an error; logs faults of the service, counts what a limit refused. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  private readonly logger = new Logger('Http');

  constructor(
    @Inject(Settings) private readonly settings: Pick<Settings, 'maxBodyBytes'>,
    @Inject(Refusals) private readonly refusals: Pick<Refusals, 'count'>,
  ) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const request = http.getRequest<Request>();
    const response = http.getResponse<Response>();
    if (error instanceof ClientGone) {
      response.destroy();
      return;
    }
    if (error instanceof DomainError && error.limit !== undefined) this.refusals.count(error.limit);
    const requestId = requestIdOf(request);
    const answer = toErrorResponse(error, requestId);
    if (answer.status === 500 || response.headersSent) this.logger.error(error, { requestId });
    if (response.headersSent) {
      // Part of the response is sent: only closing the connection tells the client that it is incomplete.
      response.destroy();
      return;
    }
    const { headers } = request;
    const isTooLong = Number(headers['content-length'] ?? 0) > this.settings.maxBodyBytes;
    const isUnwanted = isTooLong || bodyStates.get(request) === 'refused';
    sendError(request, response, isUnwanted ? { ...answer, close: true } : answer);
  }
}
