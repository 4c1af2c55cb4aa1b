import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { errorType, type Span, type SpanAttributes, type Tracing } from '@longshore/common/tracing/tracing';
import type { Outcome } from './outcome.js';
import type { RunEnd } from './run-end.js';
import type { ClaimedRun } from '../service-api/service-api.js';

/** A step of an execution with its own span. */
export interface TracedStep {
  /** Parent of what the step starts; null: the run is not traced. */
  readonly context: TraceContext | null;
  set(attributes: SpanAttributes): void;
}

/** The spans of one execution: one under the run's trace context, and one below it per step. Without tracing, passes the run's context on. */
export class ExecutionTrace {
  readonly #span: Span | null;

  constructor(
    private readonly tracing: Tracing | null,
    private readonly claimed: ClaimedRun,
    workerId: string,
  ) {
    const { id, image, attempt, trace } = claimed;
    this.#span =
      tracing?.start('execute run', {
        kind: 'consumer',
        parent: trace,
        attributes: {
          'longshore.run.id': id,
          'longshore.run.attempt': attempt ?? undefined,
          'longshore.worker.id': workerId,
          'container.image.name': image,
        },
      }) ?? null;
  }

  /** Null: the run is not traced. */
  get context(): TraceContext | null {
    return this.#span?.context ?? this.claimed.trace;
  }

  async step<T>(name: string, work: (step: TracedStep) => Promise<T>): Promise<T> {
    const span = this.#span && this.tracing?.start(name, { parent: this.#span });
    if (!span) return work({ context: this.context, set: () => undefined });
    try {
      return await work({ context: span.context, set: (attributes) => span.set(attributes) });
    } catch (error) {
      span.fail(errorType(error));
      throw error;
    } finally {
      span.end();
    }
  }

  end(outcome: Outcome, end: RunEnd): void {
    this.#span?.set({ 'longshore.run.end': end });
    if (outcome.kind === 'failed') this.#span?.fail(outcome.origin);
    this.#span?.end();
  }
}
