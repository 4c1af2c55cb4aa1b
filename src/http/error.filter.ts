import { STATUS_CODES } from 'node:http';
import { Catch, HttpException, Inject, Logger, Optional } from '@nestjs/common';
import type { ArgumentsHost, ExceptionFilter } from '@nestjs/common';
import type { Request, Response } from 'express';
import { ClientGone } from './body-reader.js';
import { answerToDomainError, FAULT } from './domain-error-answer.js';
import { DomainError } from './domain-error.js';
import { sendError } from './error-answer.js';
import type { ErrorAnswer } from './error-answer.js';
import { FailureClassifier } from './failure-classifier.js';
import { HTTP_OPTIONS } from './http-options.js';
import type { HttpOptions } from './http-options.js';

/**
 * The one place that turns errors into answers: domain errors by their kind, Nest's own refusals and
 * unknown routes by their status, failures from below as the classifier says, anything else as 500 with a
 * log entry. Nothing of the error but a domain error's own words reaches the client.
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
    const answer = this.answerTo(error);
    if (answer.status === FAULT.status) this.logger.error(error);
    if (response.headersSent) {
      // The answer is half out: only breaking it off tells the client that it is not whole.
      if (answer.status !== FAULT.status) this.logger.error(error);
      response.destroy();
      return;
    }
    const close = answer.close === true || this.isTooLong(request);
    sendError(request, response, close ? { ...answer, close } : answer);
  }

  private answerTo(error: unknown): ErrorAnswer {
    if (error instanceof DomainError) return answerToDomainError(error);
    if (error instanceof HttpException) return answerToHttpException(error);
    const known = this.classifier?.classify(error);
    if (known === undefined) return FAULT;
    this.logger.debug(known.message, error);
    return answerToDomainError(known);
  }

  /** Whether the request announces a body beyond the limit, which nobody is going to read. */
  private isTooLong(request: Request): boolean {
    return Number(request.headers['content-length'] ?? 0) > this.options.maxBodyBytes;
  }
}

function answerToHttpException(error: HttpException): ErrorAnswer {
  // Express reports a path that is not decodable as 400; such a path names nothing.
  const status = error.cause instanceof URIError ? 404 : error.getStatus();
  if (status < 400 || status === 500) return FAULT;
  const phrase = STATUS_CODES[status] ?? 'Error';
  return { status, body: { detail: phrase.charAt(0) + phrase.slice(1).toLowerCase() } };
}
