import type { TraceContext } from '@longshore/common/tracing/trace-context';

/** Variables by which a container learns where in a trace it belongs, named as OpenTelemetry does; none without a trace. */
export function traceEnvironment(trace: TraceContext | null): Readonly<Record<string, string>> {
  if (trace === null) return {};
  const { traceparent, tracestate } = trace;
  return { TRACEPARENT: traceparent, ...(tracestate === null ? {} : { TRACESTATE: tracestate }) };
}
