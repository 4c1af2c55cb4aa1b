import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { ClaimOutcome } from '../../runs/journal/claim.js';

/**
 * What a claim came to: runs; those of an earlier claim with its key; none; none because its worker is unknown, silent
 * or draining; its caller went away; or it failed.
 */
const CLAIM_ENDS = ['served', 'replayed', 'empty', 'refused', 'gone', 'failed'] as const;
type ClaimEnd = (typeof CLAIM_ENDS)[number];

const END_OF = {
  served: 'served',
  replayed: 'replayed',
  nothing: 'empty',
  contended: 'empty',
  refused: 'refused',
} as const satisfies Record<ClaimOutcome['kind'], ClaimEnd>;

/** A claim under way. */
export interface ClaimWatch {
  /** Waits for work, which is not the time that the service needs. */
  waitFor<T>(wait: Promise<T>): Promise<T>;
}

/** What claims tell about themselves. */
@Injectable()
export class ClaimMetrics {
  readonly #claims: Counter<'outcome'>;
  readonly #handedOut: Counter;
  readonly #seconds: Histogram;
  readonly #waiting: Gauge;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#claims = new Counter({
      name: 'longshore_claims_total',
      help: 'Claims that are over, by what they came to',
      labelNames: ['outcome'],
      registers,
    });
    for (const outcome of CLAIM_ENDS) this.#claims.inc({ outcome }, 0);
    this.#handedOut = new Counter({
      name: 'longshore_runs_handed_out_total',
      help: 'Runs given to claims',
      registers,
    });
    this.#seconds = new Histogram({
      name: 'longshore_claim_work_seconds',
      help: 'Time that a claim took, apart from its wait for work',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
      registers,
    });
    this.#waiting = new Gauge({
      name: 'longshore_waiting_claims',
      help: 'Claims that wait for work',
      registers,
    });
  }

  /**
   * Watches a claim from its beginning to its end.
   * @param gone tells whether its caller has gone away
   */
  async watch(claim: (watch: ClaimWatch) => Promise<ClaimOutcome>, gone: AbortSignal): Promise<ClaimOutcome> {
    const began = performance.now();
    let waitedMs = 0;
    const waitFor = async <T>(wait: Promise<T>): Promise<T> => {
      const since = performance.now();
      this.#waiting.inc();
      try {
        return await wait;
      } finally {
        this.#waiting.dec();
        waitedMs += performance.now() - since;
      }
    };
    try {
      const outcome = await claim({ waitFor });
      const end = END_OF[outcome.kind];
      this.#claims.inc({ outcome: gone.aborted && outcome.runs.length === 0 ? 'gone' : end });
      if (end === 'served') this.#handedOut.inc(outcome.runs.length);
      this.#seconds.observe((performance.now() - began - waitedMs) / 1000);
      return outcome;
    } catch (error) {
      this.#claims.inc({ outcome: 'failed' });
      throw error;
    }
  }
}
