import { Inject, Injectable } from '@nestjs/common';
import { HELD } from '../../common/http/server/held-requests.js';
import type { ClaimedRun, ClaimOutcome } from '../../runs/journal/claim.js';
import { currentSpan, spanStorage } from '@longshore/common/tracing/current-span';
import { TRACING } from '../../common/tracing/tracing.module.js';
import { errorType, type Tracing } from '@longshore/common/tracing/tracing';

/** What a claim's span says of it. */
interface AskedFor {
  readonly workerId: string;
  readonly max?: number | undefined;
  readonly waitMs: number;
}

/**
 * Traces claims. A claim's span belongs to the worker's request and points to the traces of the runs that it hands out;
 * each of these gets a span for its time in the queue.
 */
@Injectable()
export class ClaimTracer {
  constructor(@Inject(TRACING) private readonly tracing: Tracing | null) {}

  /** Traces what the current request claims, from the question to the answer. */
  async trace(asked: AskedFor, claim: () => Promise<ClaimOutcome>): Promise<ClaimOutcome> {
    const request = currentSpan();
    if (this.tracing === null || request === undefined) return claim();
    const { workerId, max, waitMs } = asked;
    if (waitMs > 0) request.set(HELD);
    const span = this.tracing.start('claim', {
      parent: request,
      attributes: {
        'longshore.worker.id': workerId,
        'longshore.claim.max': max,
        'longshore.claim.may_wait_ms': waitMs,
      },
    });
    try {
      const outcome = await spanStorage.run(span, claim);
      span.set({ 'longshore.claim.runs': outcome.runs.length });
      for (const run of outcome.runs) {
        if (run.trace !== null) span.link(run.trace);
        // Runs of an earlier claim with the same key have left the queue then.
        if (outcome.kind === 'served') this.#traceQueue(this.tracing, run);
      }
      return outcome;
    } catch (error) {
      span.fail(errorType(error));
      throw error;
    } finally {
      span.end();
    }
  }

  /** In the run's own trace, by the database's clock. */
  #traceQueue(tracing: Tracing, { run, trace }: ClaimedRun): void {
    if (trace === null || run.assignedAt === null) return;
    const span = tracing.start('run queued', {
      parent: trace,
      startedAt: run.queuedAt,
      attributes: {
        'longshore.run.id': run.id,
        'longshore.run.attempt': run.attempt,
        'longshore.worker.id': run.workerId ?? undefined,
      },
    });
    span.end(run.assignedAt);
  }
}
