import { Inject, Injectable } from '@nestjs/common';
import { currentSpan, spanStorage } from '@longshore/common/tracing/current-span';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { errorType, type Span, type Tracing } from '@longshore/common/tracing/tracing';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { HELD } from '../common/http/server/held-requests.js';
import { TRACING } from '../common/tracing/tracing.module.js';
import type { ClaimedRun, ClaimOutcome } from '../runs/journal/command.js';
import type { ClaimRequest, EndedClaim } from './claim.service.js';
import { WaitingClaims } from './waiting-claims.js';
import { monotonicMs } from '../common/monotonic-ms.js';

/** Values of the label `outcome`. */
const OUTCOMES = ['served', 'replayed', 'empty', 'refused', 'gone', 'failed'] as const;

const OUTCOME_OF = {
  served: 'served',
  replayed: 'replayed',
  empty: 'empty',
  contended: 'empty',
  refused: 'refused',
} as const satisfies Record<ClaimOutcome['kind'], (typeof OUTCOMES)[number]>;

/** Metrics and spans of claims. A claim's span links to the traces of its runs, which get a span for the queue time. */
@Injectable()
export class ClaimInstrumentation {
  readonly #claims: Counter<'outcome'>;
  readonly #runs: Counter;
  readonly #seconds: Histogram;

  constructor(
    registry: Registry,
    waiting: WaitingClaims,
    @Inject(TRACING) private readonly tracing: Tracing | null,
  ) {
    const registers = [registry];
    this.#claims = new Counter({
      name: 'longshore_claims_total',
      help: 'Finished claims, by outcome',
      labelNames: ['outcome'],
      registers,
    });
    for (const outcome of OUTCOMES) this.#claims.inc({ outcome }, 0);
    this.#runs = new Counter({
      name: 'longshore_runs_claimed_total',
      help: 'Runs given to claims',
      registers,
    });
    this.#seconds = new Histogram({
      name: 'longshore_claim_work_seconds',
      help: 'Duration of a claim without its wait for work',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
      registers,
    });
    const gauge: Gauge = new Gauge({
      name: 'longshore_waiting_claims',
      help: 'Claims that wait for work',
      registers,
      collect: () => gauge.set(waiting.size),
    });
  }

  async observe(request: ClaimRequest, claim: () => Promise<EndedClaim>): Promise<EndedClaim> {
    const span = this.#startSpan(request);
    const startedAt = monotonicMs();
    try {
      const outcome = await (span ? spanStorage.run(span, claim) : claim());
      const { kind, runs, waitedMs } = outcome;
      const isGone = request.signal.aborted && runs.length === 0;
      this.#claims.inc({ outcome: isGone ? 'gone' : OUTCOME_OF[kind] });
      if (kind === 'served') this.#runs.inc(runs.length);
      this.#seconds.observe((monotonicMs() - startedAt - waitedMs) / 1000);
      span?.set({ 'longshore.claim.runs': runs.length });
      for (const run of runs) {
        const trace = traceOf(run);
        if (trace !== null) span?.link(trace);
      }
      // Replayed runs left the queue during the first claim.
      if (span && kind === 'served') for (const run of runs) this.#traceQueueTime(run);
      return outcome;
    } catch (error) {
      this.#claims.inc({ outcome: 'failed' });
      span?.fail(errorType(error));
      throw error;
    } finally {
      span?.end();
    }
  }

  #startSpan({ workerId, max, waitMs }: ClaimRequest): Span | undefined {
    const parent = currentSpan();
    if (parent === undefined) return undefined;
    if (waitMs > 0) parent.set(HELD);
    return this.tracing?.start('claim', {
      parent,
      attributes: {
        'longshore.worker.id': workerId,
        'longshore.claim.max': max,
        'longshore.claim.may_wait_ms': waitMs,
      },
    });
  }

  /** A span in the run's own trace, by the database's clock. */
  #traceQueueTime(claimed: ClaimedRun): void {
    const { run } = claimed;
    const trace = traceOf(claimed);
    if (trace === null || run.assignedAt === null) return;
    const span = this.tracing?.start('run queued', {
      parent: trace,
      startedAt: run.queuedAt,
      attributes: {
        'longshore.run.id': run.id,
        'longshore.run.attempt': run.attempt,
        'longshore.worker.id': run.workerId ?? undefined,
      },
    });
    span?.end(run.assignedAt);
  }
}

function traceOf({ traceparent, tracestate }: ClaimedRun): TraceContext | null {
  return traceparent === null ? null : { traceparent, tracestate };
}
