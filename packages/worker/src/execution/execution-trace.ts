import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { errorType, type Span, type SpanAttributes, type Tracing } from '@longshore/common/tracing/tracing';
import type { Outcome, RunEnd } from './run-end.js';
import type { ClaimedRun } from '../service-api/service-api.js';

/** A part of an execution that is traced by itself. */
export interface TracedStep {
  /** Where in a trace that belongs which the step brings about; null: nobody traces the run. */
  readonly place: TraceContext | null;
  /** Says more of the step. */
  set(attributes: SpanAttributes): void;
}

/**
 * The trace of one execution: a span that hangs under the run's place in its trace, and one below it for each step. A
 * worker that does not trace passes the run's place on as it is.
 */
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

  /** Where in a trace that belongs which the execution brings about; null: nobody traces the run. */
  get place(): TraceContext | null {
    return this.#span?.context ?? this.claimed.trace;
  }

  /** Traces a step. @throws what the step throws */
  async step<T>(name: string, work: (step: TracedStep) => Promise<T>): Promise<T> {
    const span = this.#span && this.tracing?.start(name, { parent: this.#span });
    if (!span) return work({ place: this.place, set: () => undefined });
    try {
      return await work({ place: span.context, set: (attributes) => span.set(attributes) });
    } catch (error) {
      span.fail(errorType(error));
      throw error;
    } finally {
      span.end();
    }
  }

  /** Ends the execution's span. */
  end(outcome: Outcome, end: RunEnd): void {
    this.#span?.set({ 'longshore.run.end': end });
    if (outcome.kind === 'failed') this.#span?.fail(outcome.cause);
    this.#span?.end();
  }
}
