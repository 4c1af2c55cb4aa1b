import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import type { Idempotency } from '../../runs/journal/idempotency-ledger.js';
import { NOTHING } from '../../runs/journal/claim.js';
import type { ClaimOutcome } from '../../runs/journal/claim.js';
import type { ClaimContext, SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { WorkerPool } from '../pool/worker-pool.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import type { ClaimWatch } from './claim-metrics.js';
import { EmptyClaimPredictor } from './empty-claim-predictor.js';
import { RefusedClaims } from './refused-claims.js';
import { WaitingClaims, type Turn } from './waiting-claims.js';

/** First pause of a claim that others were in the way of, in milliseconds; it doubles up to the longest. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 250;

/** Tries of a claim that does not wait while others are in its way. */
const TRIES = 4;

/** Claims that may wait in one process; one more is answered at once. */
const MAX_WAITING = 20_000;

const UNWATCHED: ClaimWatch = { waitFor: (wait) => wait };

/** How a worker asks for work. */
export interface ClaimRequest {
  readonly workerId: string;
  /** Runs to be given at most; undefined: as the strategy gives them to a claim. */
  readonly max?: number | undefined;
  /** Longest wait for work in milliseconds; 0 answers at once. */
  readonly waitMs: number;
  readonly idempotency?: Idempotency | undefined;
  /** Aborts when the caller has gone away or the service stops. */
  readonly signal: AbortSignal;
}

/** Hands pending runs to workers. */
@Injectable()
export class ClaimService {
  readonly #desk: ClaimContext;

  constructor(
    pool: WorkerPool,
    private readonly outlook: EmptyClaimPredictor,
    private readonly waiting: WaitingClaims,
    private readonly refused: RefusedClaims,
    @Inject(SCHEDULER) strategy: SchedulingStrategy,
  ) {
    this.#desk = {
      strategy,
      findClaiming: async (ids, executor) => {
        const found = await pool.findAll(ids, executor);
        return new Map([...found].filter(([, worker]) => worker.isActive && !worker.isDraining));
      },
    };
  }

  /**
   * Claims runs for a worker, and waits for work if it may. An unknown, inactive or draining worker gets none; so does
   * a caller that has gone away, because nobody would hear the answer.
   * @param watch is told of the waits
   * @returns the runs, none when there is no work; those of an earlier claim with the same key as far as they are
   * still with the worker
   * @throws JournalOverloaded, or what the database says
   */
  async claim(request: ClaimRequest, watch: ClaimWatch = UNWATCHED): Promise<ClaimOutcome> {
    const { workerId, max, waitMs, idempotency, signal } = request;
    const hasKey = idempotency !== undefined;
    const deadline = performance.now() + waitMs;
    let pauseMs = FIRST_PAUSE_MS;
    let turn: Turn | null = null;
    const room = waitMs > 0 ? this.waiting.watchRoom(workerId) : null;
    try {
      for (let tries = 1; ; tries += 1) {
        const since = waitMs > 0 ? this.waiting.version : 0;
        room?.reset();
        const stillWanted = (): boolean => !signal.aborted;
        const isHopeless = tries === 1 && waitMs > 0 && (await this.outlook.hasNothingFor(workerId, hasKey));
        const outcome = isHopeless
          ? NOTHING
          : await this.outlook.claim({ workerId, max, desk: this.#desk, idempotency, stillWanted });
        const leftMs = deadline - performance.now();
        if (isAnswer(outcome) || (leftMs <= 0 && !(outcome.kind === 'contended' && tries < TRIES))) {
          // Runs of an earlier claim are not those that it was woken for.
          turn?.settle(outcome.kind, outcome.kind === 'served' ? outcome.runs.length : 0);
          return outcome;
        }
        if (outcome.kind === 'contended') {
          if (!(await watch.waitFor(pause(pauseMs, signal)))) return outcome;
          pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
          continue;
        }
        turn?.settle(outcome.kind, 0);
        turn = null;
        if (outcome.kind === 'refused') {
          // Whoever may not have work now must not be woken in the place of one who may.
          if (!(await watch.waitFor(this.refused.hold(workerId, leftMs, signal)))) return outcome;
          continue;
        }
        if (this.waiting.size >= MAX_WAITING) return outcome;
        turn = await watch.waitFor(this.waiting.turn(since, room, leftMs, signal));
        if (turn === null) {
          if (signal.aborted || !hasKey) return outcome;
          // Another request with this key may have been served meanwhile: one more look finds what it got.
          if (await this.outlook.hasServedNothing(workerId)) return outcome;
        }
        pauseMs = FIRST_PAUSE_MS;
      }
    } finally {
      room?.close();
      turn?.settle('gone', 0);
    }
  }
}

function isAnswer({ kind }: ClaimOutcome): boolean {
  return kind === 'served' || kind === 'replayed';
}

/** @returns false when the signal aborted */
async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
  return !signal.aborted;
}
