import { applyDecorators, type ExecutionContext } from '@nestjs/common';
import { ApiHeader } from '@nestjs/swagger';
import type { Request } from 'express';
import { currentSpan } from '@longshore/common/tracing/current-span';
import { readTraceContext, type TraceContext } from '@longshore/common/tracing/trace-context';
import { actsAs, isBound } from '../../auth/access.js';
import { assertActsAs, callerOf } from '../../auth/api-key.guard.js';
import { EXAMPLE_WORKER_ID } from '../../common/http/api-examples.js';
import { createHeaderDecorator } from '../../common/http/request/handler-inputs.js';
import { InvalidRequest } from '../../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
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
 * Parameter: the reporter, from the API key and the fencing headers, which are optional unless the key is bound to workers.
 * @throws InvalidRequest for a malformed or missing header; KeyOfOtherWorker
 */
export const ReportedBy = createHeaderDecorator((_: unknown, context: ExecutionContext): Reporter =>
  readReporter(context),
);

/** A worker, and an attempt that it claims to hold. */
export interface Fence {
  readonly workerId: string;
  readonly attempt: number;
}

/** Parameter: the fencing headers, both required. @throws InvalidRequest for a malformed or missing header; KeyOfOtherWorker */
export const FencedBy = createHeaderDecorator((_: unknown, context: ExecutionContext): Reporter =>
  readReporter(context, true),
);

/** Parameter: the fencing headers of a worker that reads a run; undefined unless both are there and the key is a worker's. */
export const HeldBy = createHeaderDecorator((_: unknown, context: ExecutionContext): Fence | undefined => {
  const request = context.switchToHttp().getRequest<Request>();
  const caller = callerOf(request);
  const [workerId, attempt] = [WORKER_ID_HEADER, RUN_ATTEMPT_HEADER].map((name) => request.get(name));
  if (!caller.scopes.has('worker') || workerId === undefined || attempt === undefined || !isAttempt(attempt))
    return undefined;
  return actsAs(caller, workerId) ? { workerId, attempt: Number(attempt) } : undefined;
});

function readReporter(context: ExecutionContext, isRequired = false): Reporter {
  const request = context.switchToHttp().getRequest<Request>();
  const caller = callerOf(request);
  const workerId = request.headers[WORKER_ID_HEADER.toLowerCase()];
  const attempt = request.headers[RUN_ATTEMPT_HEADER.toLowerCase()];
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
  if (isBound(caller) && typeof workerId === 'string') assertActsAs(caller, workerId);
  if (isBound(caller) || isRequired) {
    const why = isBound(caller) ? ' with an API key that is bound to workers' : '';
    if (workerId === undefined) problems.push(`header ${WORKER_ID_HEADER} is required${why}`);
    if (attempt === undefined) problems.push(`header ${RUN_ATTEMPT_HEADER} is required${why}`);
  }
  if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
  return {
    sender: caller.keyId,
    ...(typeof workerId === 'string' ? { workerId } : {}),
    ...(attempt === undefined ? {} : { attempt: Number(attempt) }),
  };
}

function isAttempt(value: string | string[]): boolean {
  return typeof value === 'string' && ATTEMPT.test(value) && Number(value) <= MAX_ATTEMPTS_OF_A_RUN;
}

/** Parameter: the trace of the runs that a request creates: its own span, else its `traceparent` header. */
export const TraceOf = createHeaderDecorator((_: unknown, context: ExecutionContext): TraceContext | null => {
  const { headers } = context.switchToHttp().getRequest<Request>();
  return currentSpan()?.context ?? readTraceContext(headers['traceparent'], headers['tracestate']);
});

/** Documents the fencing headers of a route, both required. @param of what is said of each */
export function ApiFence(of: { readonly worker: string; readonly attempt: string }): MethodDecorator {
  return applyDecorators(
    ApiHeader({
      name: RUN_ATTEMPT_HEADER,
      required: true,
      description: of.attempt,
      schema: { type: 'integer', minimum: 1, maximum: MAX_ATTEMPTS_OF_A_RUN, example: 1 },
    }),
    ApiHeader({
      name: WORKER_ID_HEADER,
      required: true,
      description: of.worker,
      schema: { type: 'string', minLength: 1, maxLength: LONGEST_WORKER_ID, example: EXAMPLE_WORKER_ID },
    }),
  );
}

/** What a route says of them that is only for the worker that holds a run. */
export const OF_HOLDER = {
  worker: 'The worker that holds the run; 409 if another or none does.',
  attempt: 'The current attempt; 409 if it is another.',
} as const;

/** Documents a route whose runs go on with the trace of the request. */
export function ApiTraceparent(): MethodDecorator {
  return ApiHeader({
    name: 'traceparent',
    required: false,
    description:
      'W3C Trace Context, together with `tracestate`. Kept with the run, and given to its container as TRACEPARENT; ' +
      'ignored when it is not valid.',
    schema: { type: 'string' },
  });
}
