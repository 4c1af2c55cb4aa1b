import { Catch, HttpException, Inject, Logger, Optional } from '@nestjs/common';
import type { ArgumentsHost, ExceptionFilter } from '@nestjs/common';
import type { Request, Response } from 'express';
import { ClientGone } from '../request/body-reader.js';
import { answerToDomainError, FAULT } from './domain-error-answer.js';
import { DomainError } from './domain-error.js';
import { sendError } from './error-response.js';
import type { ErrorAnswer } from './error-response.js';
import { FailureClassifier } from './failure-classifier.js';
import { answerToHttpException } from './http-exception-answer.js';
import { HTTP_OPTIONS } from '../http-options.js';
import type { HttpOptions } from '../http-options.js';
import { requestIdOf } from '../server/request-id.js';

/**
 * Turns errors into answers: domain errors by their kind, HttpExceptions by their status and text, failures of the
 * database as the classifier says, and every other error as 500 with a log entry and without its text.
 */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  private readonly logger = new Logger('Http');

  constructor(
    @Inject(HTTP_OPTIONS) private readonly options: HttpOptions,
    @Optional() @Inject(FailureClassifier) private readonly classifier?: FailureClassifier,
  ) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const request = http.getRequest<Request>();
    const response = http.getResponse<Response>();
    if (error instanceof ClientGone) {
      response.destroy();
      return;
    }
    const requestId = requestIdOf(request);
    const answer = this.answerTo(error, requestId);
    if (answer.status === FAULT.status || response.headersSent) this.logger.error(error, { requestId });
    if (response.headersSent) {
      // Part of the answer is sent: only closing the connection tells the client that it is incomplete.
      response.destroy();
      return;
    }
    const close = answer.close === true || this.isTooLong(request);
    sendError(request, response, close ? { ...answer, close } : answer);
  }

  private answerTo(error: unknown, requestId: string | undefined): ErrorAnswer {
    if (error instanceof DomainError) return answerToDomainError(error);
    if (error instanceof HttpException) return answerToHttpException(error);
    if (isHttpError(error)) return answerToHttpException(new HttpException(error.message, error.statusCode));
    const known = this.classifier?.classify(error);
    if (known === undefined) return FAULT;
    this.logger.debug(known.message, { error, requestId });
    return answerToDomainError(known);
  }

  /** Whether the request announces a body beyond the limit, which is not read. */
  private isTooLong(request: Request): boolean {
    return Number(request.headers['content-length'] ?? 0) > this.options.maxBodyBytes;
  }
}

/** An error of the package http-errors whose text is meant for the client. */
function isHttpError(error: unknown): error is Error & { readonly statusCode: number } {
  return (
    error instanceof Error &&
    'expose' in error &&
    error.expose === true &&
    'statusCode' in error &&
    typeof error.statusCode === 'number'
  );
}
