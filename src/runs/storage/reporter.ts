import type { ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { createHeaderDecorator } from '../../common/http/request/handler-inputs.js';
import { InvalidRequest } from '../../common/http/errors/domain-error.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../machine/run.js';
import type { Reporter } from '../machine/run-command.js';

/** Header by which a reporter says which worker it is. */
export const WORKER_ID_HEADER = 'X-Worker-Id';
/** Header by which a reporter says which attempt it speaks of. */
export const RUN_ATTEMPT_HEADER = 'X-Run-Attempt';

/** Longest id of a worker, in characters. */
export const LONGEST_WORKER_ID = 128;

const ATTEMPT = /^[1-9][0-9]{0,3}$/;

/**
 * Reads the fencing headers; both are optional.
 * @throws InvalidRequest when one is given and is no worker id or no attempt number
 */
export function readReporter(headers: Request['headers']): Reporter {
  const workerId = headers[WORKER_ID_HEADER.toLowerCase()];
  const attempt = headers[RUN_ATTEMPT_HEADER.toLowerCase()];
  const problems: string[] = [];
  if (
    workerId !== undefined &&
    (typeof workerId !== 'string' || workerId === '' || workerId.length > LONGEST_WORKER_ID)
  ) {
    problems.push(`header ${WORKER_ID_HEADER} must be a worker id`);
  }
  if (attempt !== undefined && !isAttempt(attempt)) {
    problems.push(`header ${RUN_ATTEMPT_HEADER} must be an integer from 1 to ${MAX_ATTEMPTS_OF_A_RUN}`);
  }
  if (problems.length > 0) throw new InvalidRequest('Request validation failed', problems);
  return {
    ...(typeof workerId === 'string' ? { workerId } : {}),
    ...(attempt === undefined ? {} : { attempt: Number(attempt) }),
  };
}

function isAttempt(value: string | string[]): boolean {
  return typeof value === 'string' && ATTEMPT.test(value) && Number(value) <= MAX_ATTEMPTS_OF_A_RUN;
}

/** The reporter of the request, from its fencing headers. */
export const ReportedBy = createHeaderDecorator((_: unknown, context: ExecutionContext): Reporter =>
  readReporter(context.switchToHttp().getRequest<Request>().headers),
);
