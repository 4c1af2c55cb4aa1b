import type { TraceContext } from './trace-context.js';

/** What a span says of itself; undefined values are left out. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** A stretch of work within a trace, from its start to `end()`. What is told to it afterwards is lost. */
export interface Span {
  /** Where work that this span brings about belongs. */
  readonly context: TraceContext;
  readonly traceId: string;
  readonly spanId: string;
  /** False for a span of a trace that was not chosen to be recorded: only its context is of use. */
  readonly isRecorded: boolean;
  set(attributes: SpanAttributes): void;
  rename(name: string): void;
  /** Points to a place in this or another trace that has to do with it. */
  link(to: Span | TraceContext): void;
  /** @param type what went wrong, as one of few words */
  fail(type: string): void;
  /** @param at when it ended, if not now */
  end(at?: Date): void;
}

/** What a span begins with. */
export interface SpanStart {
  /** Default `internal`. */
  readonly kind?: 'server' | 'client' | 'consumer' | 'internal' | undefined;
  /** Default none: the span begins a trace. */
  readonly parent?: Span | TraceContext | null | undefined;
  readonly links?: readonly (Span | TraceContext)[] | undefined;
  readonly attributes?: SpanAttributes | undefined;
  /** Default now; a number is a time of `performance.now()`. */
  readonly startedAt?: Date | number | undefined;
}

/** Makes spans, and sends them away in the background. Where tracing is switched off there is none of these. */
export interface Tracing {
  start(name: string, start?: SpanStart): Span;
  /** Sends what is still to be sent, for two seconds at most. Never rejects; a second call changes nothing. */
  close(): Promise<void>;
}

/** The word for an error in a span. */
export function errorType(error: unknown): string {
  return error instanceof Error ? error.constructor.name : typeof error;
}
