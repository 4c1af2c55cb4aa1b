import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import {
  createTraceState,
  diag,
  DiagLogLevel,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type Link,
  type Span as OtelSpan,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api';
import { getNumberFromEnv, setGlobalErrorHandler } from '@opentelemetry/core';
import {
  detectResources,
  envDetector,
  resourceFromAttributes,
  type Resource,
} from '@opentelemetry/resources';
import {
  AlwaysOnSampler,
  BasicTracerProvider,
  BatchSpanProcessor,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base';
import { withTimeout } from '../timeout.js';
import type { TracedProgram } from './start-tracing.js';
import type { TraceContext } from './trace-context.js';
import { protocolOf } from './tracing-variables.js';
import type { Span, SpanAttributes, SpanStart, Tracing } from './tracing.js';

/** Timeout of sending the last spans, in milliseconds. */
const FLUSH_MS = 2_000;

/** Shortest interval between two warnings of the same kind, in milliseconds. */
const WARN_EVERY_MS = 60_000;

/** Warnings are of the same kind when so many first characters are equal. */
const KIND_LENGTH = 24;
/** Kinds that are remembered. */
const MOST_KINDS = 20;

/** Links of one span: a group of the journal has one for each of its requests. */
const MOST_LINKS = 256;

/** Characters of an attribute's text; the SDK itself has no limit. */
const LONGEST_ATTRIBUTE = 1_024;

const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
} as const;

const COMPARE_CLOCKS_EVERY_MS = 60_000;

/** System time with the resolution of `performance.now()`, so that child spans never start before their parent. */
class SpanClock {
  #offset = 0;
  #comparedAt = -Infinity;

  /** Converts a time of `performance.now()` to milliseconds since 1970. */
  at(monotonic: number = performance.now()): number {
    const now = performance.now();
    if (now - this.#comparedAt > COMPARE_CLOCKS_EVERY_MS) {
      this.#offset = Date.now() - now;
      this.#comparedAt = now;
    }
    return this.#offset + monotonic;
  }
}

const clock = new SpanClock();

/**
 * Tracing by the OpenTelemetry SDK, which reads the OTEL_* variables. It sends spans by OTLP over HTTP in the background
 * from a bounded queue, and drops spans when the queue is full.
 */
export class OpenTelemetry implements Tracing {
  #closed: Promise<void> | undefined;

  private constructor(
    private readonly provider: BasicTracerProvider,
    /** Uses the sampler of the environment. */
    private readonly sampled: Tracer,
    /** Records everything. */
    private readonly always: Tracer,
  ) {}

  static async start(env: NodeJS.ProcessEnv, program: TracedProgram): Promise<OpenTelemetry> {
    reportProblems(program.warn);
    const resource = resourceOf(program);
    const spanProcessors = [new BatchSpanProcessor(await loadExporter(env))];
    // The SDK limits the number of attributes, to 128 unless the environment says otherwise.
    const spanLimits = {
      linkCountLimit: getNumberFromEnv('OTEL_SPAN_LINK_COUNT_LIMIT') ?? MOST_LINKS,
      attributeValueLengthLimit:
        getNumberFromEnv('OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT') ??
        getNumberFromEnv('OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT') ??
        LONGEST_ATTRIBUTE,
    };
    const provider = new BasicTracerProvider({ resource, spanProcessors, spanLimits });
    const always = new BasicTracerProvider({
      resource,
      spanProcessors,
      spanLimits,
      sampler: new AlwaysOnSampler(),
    });
    const { name, version } = program;
    return new OpenTelemetry(provider, provider.getTracer(name, version), always.getTracer(name, version));
  }

  start(
    name: string,
    { kind = 'internal', parent, links = [], attributes, startedAt }: SpanStart = {},
  ): Span {
    // A new trace that a recorded span links to is always recorded.
    const isNeeded = !parent && links.some((link) => link instanceof RecordedSpan && link.isRecorded);
    const span = (isNeeded ? this.always : this.sampled).startSpan(
      name,
      {
        kind: KINDS[kind],
        links: links.map(linkTo),
        ...(attributes === undefined ? {} : { attributes: attributes }),
        startTime: startedAt instanceof Date ? startedAt : clock.at(startedAt),
      },
      parent ? contextOf(parent) : ROOT_CONTEXT,
    );
    return new RecordedSpan(span);
  }

  close(): Promise<void> {
    // The error handler has reported a collector that does not answer.
    this.#closed ??= withTimeout(
      FLUSH_MS,
      this.provider.shutdown().catch(() => undefined),
      undefined,
    );
    return this.#closed;
  }
}

class RecordedSpan implements Span {
  readonly isRecorded: boolean;
  #context: TraceContext | undefined;

  constructor(readonly span: OtelSpan) {
    this.isRecorded = span.isRecording();
  }

  get traceId(): string {
    return this.span.spanContext().traceId;
  }

  get spanId(): string {
    return this.span.spanContext().spanId;
  }

  get context(): TraceContext {
    return (this.#context ??= toTraceContext(this.span.spanContext()));
  }

  set(attributes: SpanAttributes): void {
    this.span.setAttributes(attributes);
  }

  rename(name: string): void {
    this.span.updateName(name);
  }

  link(to: Span | TraceContext): void {
    this.span.addLink(linkTo(to));
  }

  fail(type: string): void {
    this.span.setAttribute('error.type', type);
    this.span.setStatus({ code: SpanStatusCode.ERROR });
  }

  end(at?: Date): void {
    this.span.end(at ?? clock.at());
  }
}

async function loadExporter(env: NodeJS.ProcessEnv): Promise<SpanExporter> {
  if (protocolOf(env) === 'http/json') {
    const json = await import('@opentelemetry/exporter-trace-otlp-http');
    return new json.OTLPTraceExporter();
  }
  const protobuf = await import('@opentelemetry/exporter-trace-otlp-proto');
  return new protobuf.OTLPTraceExporter();
}

/** Attributes of the program; those of the environment take precedence. */
function resourceOf({ name, version }: TracedProgram): Resource {
  return resourceFromAttributes({
    'service.name': name,
    ...(version === undefined ? {} : { 'service.version': version }),
    'service.instance.id': randomUUID(),
    'host.name': hostname(),
    'process.pid': process.pid,
  }).merge(detectResources({ detectors: [envDetector] }));
}

function ignore(): void {}

/** Reports problems of the SDK (lost spans, invalid variables), each kind once a minute. */
function reportProblems(warn: (reason: string) => void): void {
  const next = new Map<string, number>();
  const report = (problem: unknown): void => {
    const text = problem instanceof Error ? problem.message || errorCode(problem) : String(problem);
    // The rest of the text may contain numbers that differ.
    const kind = text.slice(0, KIND_LENGTH);
    if (performance.now() < (next.get(kind) ?? -Infinity)) return;
    if (next.size >= MOST_KINDS) next.clear();
    next.set(kind, performance.now() + WARN_EVERY_MS);
    warn(text);
  };
  setGlobalErrorHandler(report);
  diag.setLogger(
    { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}

/** For errors without a message: an AggregateError of several addresses. */
function errorCode(error: Error): string {
  return 'code' in error ? String(error.code) : error.name;
}

function linkTo(to: Span | TraceContext): Link {
  return { context: spanContextOf(to) };
}

function contextOf(parent: Span | TraceContext): Context {
  return trace.setSpanContext(ROOT_CONTEXT, spanContextOf(parent));
}

function spanContextOf(place: Span | TraceContext): SpanContext {
  if (place instanceof RecordedSpan) return place.span.spanContext();
  const { traceparent, tracestate } = 'context' in place ? place.context : place;
  const [, traceId = '', spanId = '', flags = '0'] = traceparent.split('-');
  return {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(tracestate === null ? {} : { traceState: createTraceState(tracestate) }),
  };
}

function toTraceContext({ traceId, spanId, traceFlags, traceState }: SpanContext): TraceContext {
  const flags = traceFlags.toString(16).padStart(2, '0');
  return {
    traceparent: `00-${traceId}-${spanId}-${flags}`,
    tracestate: traceState?.serialize() || null,
  };
}
