import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { covers, type Caller } from '../auth/access.js';
import { assertCovers } from '../auth/api-key.guard.js';
import { JournalOverloaded } from '../runs/run.errors.js';
import type { Idempotency } from '../runs/idempotency/idempotency.repository.js';
import { EMPTY, type Claim, type ClaimOutcome } from '../runs/journal/command.js';
import { RunJournal } from '../runs/journal/run-journal.js';
import { offerOf, type Offer } from '../runs/queue/lane.js';
import type { ClaimContext, ClaimingWorker, SchedulingStrategy } from '../runs/scheduling-strategy.js';
import { WorkerPool, type PooledWorker } from '../workers/pool/worker-pool.js';
import { SCHEDULER } from './strategies/scheduler.js';
import type { WaitFor } from './claim-instrumentation.js';
import { EmptyClaimPredictor } from './empty-claim-predictor.js';
import { WaitingClaims, type WakeUp } from './waiting-claims.js';

/** First pause of a contended claim in milliseconds; it doubles up to the longest. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 250;

/** Tries of a contended claim that does not wait. */
const MAX_TRIES = 4;

export interface ClaimRequest {
  readonly workerId: string;
  /** Most runs to assign; undefined: the strategy decides. */
  readonly max?: number | undefined;
  /** Longest wait for work in milliseconds; 0: none. */
  readonly waitMs: number;
  readonly idempotency?: Idempotency | undefined;
  readonly caller?: Caller | undefined;
  /** Aborts when the client is gone or the service stops. */
  readonly signal: AbortSignal;
}

/** A worker that claims now may do so, whatever its heartbeat before said. */
function mayClaim({ isActive, isDraining }: PooledWorker): boolean {
  return isActive && !isDraining;
}

@Injectable()
export class ClaimService {
  readonly #context: ClaimContext;

  constructor(
    private readonly pool: WorkerPool,
    @Inject(RunJournal) private readonly journal: Pick<RunJournal, 'claim'>,
    private readonly predictor: EmptyClaimPredictor,
    private readonly waiting: WaitingClaims,
    @Inject(SCHEDULER) strategy: SchedulingStrategy,
  ) {
    this.#context = {
      strategy,
      findClaiming: async (ids, executor) => {
        const found = await pool.findAll(ids, executor);
        return new Map([...found].filter(([, worker]) => mayClaim(worker)));
      },
    };
  }

  /**
   * Claims runs for a worker, or returns those of an earlier claim with the same key. Waits for work if it may. A worker
   * that is unknown, stale or draining gets none.
   * @throws KeyOfOtherTags when the worker has last reported what the caller's key is not bound to; JournalOverloaded, or an
   * error of the database
   */
  async claim(request: ClaimRequest, waitFor: WaitFor = (wait) => wait): Promise<ClaimOutcome> {
    const { workerId, max, waitMs, idempotency, caller, signal } = request;
    const hasKey = idempotency !== undefined;
    const stillWanted = (): boolean => !signal.aborted;
    const worker: { id: string; offer: Offer | null } = { id: workerId, offer: null };
    const seen: { worker?: ClaimingWorker } = {};
    const accepts = (claiming: ClaimingWorker): boolean => {
      seen.worker = claiming;
      if (waitMs > 0) worker.offer = offerOf(claiming);
      return caller === undefined || covers(caller, claiming);
    };
    const claim = {
      workerId,
      max,
      context: this.#context,
      idempotency,
      caller,
      stillWanted,
      accepts,
    };
    const endsAt = performance.now() + waitMs;
    const capacity = waitMs > 0 ? this.waiting.listenForCapacity(workerId) : null;
    let pauseMs = FIRST_PAUSE_MS;
    let wakeUp: WakeUp | null = null;
    try {
      for (let tries = 1; ; tries += 1) {
        await this.#assertCovers(workerId, caller);
        const version = waitMs > 0 ? this.waiting.version : 0;
        capacity?.reset();
        const isEmpty = tries === 1 && waitMs > 0 && (await this.predictor.predictsNothing(workerId, hasKey));
        const outcome = isEmpty ? EMPTY : await this.#submit(claim);
        const { kind, runs } = outcome;
        if (kind === 'refused' && caller && seen.worker) assertCovers(caller, seen.worker);
        const leftMs = endsAt - performance.now();
        const mayRetry = leftMs > 0 || (kind === 'contended' && tries < MAX_TRIES);
        // An empty answer would say that its key was never served.
        if (outcome.isReplay && !mayRetry) throw new JournalOverloaded();
        if (kind === 'served' || kind === 'replayed' || !mayRetry) {
          // Replayed runs are not those that the claim was woken for.
          wakeUp?.settle(kind, kind === 'served' ? runs.map(({ run }) => run) : []);
          return outcome;
        }
        if (kind === 'contended') {
          await waitFor(sleep(pauseMs, undefined, { signal }).catch(() => undefined));
          if (signal.aborted) return outcome;
          pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
          continue;
        }
        wakeUp?.settle(kind, []);
        wakeUp = null;
        if (kind === 'refused') {
          // Runs must not wake this claim in the place of one that may take them.
          if (!(await waitFor(this.waiting.waitForWorker(workerId, leftMs, signal)))) return outcome;
          continue;
        }
        wakeUp = await waitFor(this.waiting.wait(version, capacity, leftMs, signal, worker));
        if (wakeUp === null) {
          if (signal.aborted || !hasKey) return outcome;
          // Another request with this key may have been served in the meantime: try once more.
          if (await this.predictor.predictsNoReplay(workerId)) return outcome;
        }
        pauseMs = FIRST_PAUSE_MS;
      }
    } finally {
      capacity?.close();
      wakeUp?.settle('gone', []);
    }
  }

  async #submit(claim: Claim): Promise<ClaimOutcome> {
    const { servedBy, end } = this.predictor.record(claim);
    let outcome: ClaimOutcome | null = null;
    try {
      outcome = await this.journal.claim({ ...claim, servedBy });
      return outcome;
    } finally {
      end(outcome);
    }
  }

  /** Neither a predicted nor a repeated claim asks `accepts`. @throws KeyOfOtherTags */
  async #assertCovers(workerId: string, caller: Caller | undefined): Promise<void> {
    if (!caller || (caller.workerTags === null && caller.workerCapabilities === null)) return;
    const worker = await this.pool.find(workerId);
    if (worker) assertCovers(caller, worker);
  }
}
