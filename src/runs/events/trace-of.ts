import type { ExecutionContext } from '@nestjs/common';
import { ApiHeader } from '@nestjs/swagger';
import type { Request } from 'express';
import { createHeaderDecorator } from '../../common/http/request/handler-inputs.js';
import { currentSpan } from '@longshore/common/tracing/current-span';
import { readTraceContext, type TraceContext } from '@longshore/common/tracing/trace-context';

/** Parameter: the trace of the runs that a request creates: its own span, else its `traceparent` header. */
export const TraceOf = createHeaderDecorator((_: unknown, context: ExecutionContext): TraceContext | null => {
  const { headers } = context.switchToHttp().getRequest<Request>();
  return currentSpan()?.context ?? readTraceContext(headers['traceparent'], headers['tracestate']);
});

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
