import type { TraceContext } from './trace-context.js';

/** Undefined values are omitted. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** A unit of work of a trace, from its start to `end()`; later changes are lost. */
export interface Span {
  /** Parent of the work that this span causes. */
  readonly context: TraceContext;
  readonly traceId: string;
  readonly spanId: string;
  /** False when the trace is not sampled. */
  readonly isRecorded: boolean;
  set(attributes: SpanAttributes): void;
  rename(name: string): void;
  link(to: Span | TraceContext): void;
  /** @param type of the error; of low cardinality */
  fail(type: string): void;
  /** @param at default: now */
  end(at?: Date): void;
}

export interface SpanStart {
  /** Default `internal`. */
  readonly kind?: 'server' | 'client' | 'consumer' | 'internal' | undefined;
  /** Default none: the span starts a trace. */
  readonly parent?: Span | TraceContext | null | undefined;
  readonly links?: readonly (Span | TraceContext)[] | undefined;
  readonly attributes?: SpanAttributes | undefined;
  /** Default now; a number is a time of `performance.now()`. */
  readonly startedAt?: Date | number | undefined;
}

/** Creates spans and exports them in the background. */
export interface Tracing {
  start(name: string, start?: SpanStart): Span;
  /** Sends the remaining spans, for two seconds at most. Never rejects; idempotent. */
  close(): Promise<void>;
}

/** The type of an error in a span. */
export function errorType(error: unknown): string {
  return error instanceof Error ? error.constructor.name : typeof error;
}
