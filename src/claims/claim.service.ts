import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Caller } from '../auth/access.js';
import { assertCovers } from '../auth/api-key.guard.js';
import { BatchedReads } from '../database/sql/batched-reads.js';
import { JournalOverloaded } from '../runs/run.errors.js';
import { IdempotencyRepository, type Idempotency } from '../runs/idempotency/idempotency.repository.js';
import { EMPTY, type Claim, type ClaimOutcome } from '../runs/journal/command.js';
import { RunJournal } from '../runs/journal/run-journal.js';
import { offerOf, type Demands, type Offer } from '../runs/queue/lane.js';
import { WorkerPool } from '../workers/pool/worker-pool.js';
import { WaitingClaims, type CapacityListener } from './waiting-claims.js';
import type { WakeUp } from './waves.js';
import { monotonicMs } from '../common/monotonic-ms.js';

/** First pause of a contended claim in milliseconds; it doubles up to the longest. */
const FIRST_PAUSE_MS = 5;
const LONGEST_PAUSE_MS = 250;

/** Tries of a contended claim that does not wait. */
const MAX_TRIES = 4;

export interface ClaimRequest extends Claim {
  readonly caller?: Caller | undefined;
  /** Longest wait for work in milliseconds; 0: none. */
  readonly waitMs: number;
}

/** The outcome of a claim that has ended. */
export interface EndedClaim extends ClaimOutcome {
  /** Milliseconds in which it waited for work, or for other transactions. */
  readonly waitedMs: number;
}

/** A claim between its tries. */
interface Waiting {
  readonly request: ClaimRequest;
  /** When it has waited long enough, by `monotonicMs`. */
  readonly endsAt: number;
  readonly capacity: CapacityListener | null;
  /** With what its worker offered in the last try. */
  readonly worker: { readonly id: string; offer: Offer | null };
  /** Version of the queue before the last try. */
  version: number;
  tries: number;
  /** Whether the wait is over without a run: what is left is to look for its key. */
  isOver: boolean;
  pauseMs: number;
  /** Why it tries again, until the claim that woke it is settled. */
  wakeUp: WakeUp | null;
}

/** Serves claims: tries, waits for work, and tries again. */
@Injectable()
export class ClaimService {
  readonly #served: BatchedReads<string, unknown>;

  constructor(
    private readonly pool: WorkerPool,
    @Inject(RunJournal) private readonly journal: Pick<RunJournal, 'claim'>,
    private readonly waiting: WaitingClaims,
    idempotency: IdempotencyRepository,
    dataSource: DataSource,
  ) {
    this.#served = new BatchedReads((scopes) => idempotency.findClaimed(dataSource, scopes));
  }

  /**
   * Claims runs for a worker, or returns those of an earlier claim with the same key. Waits for work if it may. A worker
   * that is unknown, stale or draining gets none.
   * @throws KeyOfOtherTags when the worker has last reported what the caller's key is not bound to; JournalOverloaded, or an
   * error of the database
   */
  async claim(request: ClaimRequest): Promise<EndedClaim> {
    const { workerId, waitMs } = request;
    const claim: Waiting = {
      request,
      endsAt: monotonicMs() + waitMs,
      capacity: waitMs > 0 ? this.waiting.listenForCapacity(workerId) : null,
      worker: { id: workerId, offer: null },
      version: 0,
      tries: 0,
      isOver: false,
      pauseMs: FIRST_PAUSE_MS,
      wakeUp: null,
    };
    let waitedMs = 0;
    try {
      for (;;) {
        const outcome = await this.#try(claim);
        const since = monotonicMs();
        const triesAgain = await this.#waitAfter(outcome, claim);
        waitedMs += monotonicMs() - since;
        if (!triesAgain) return { ...outcome, waitedMs };
      }
    } finally {
      claim.capacity?.close();
      claim.wakeUp?.settle('gone', []);
    }
  }

  /** Tries once. The first try of a claim that may wait asks the journal only if the queue may have runs, or its key has got some. */
  async #try(claim: Waiting): Promise<ClaimOutcome> {
    const { request, worker, capacity } = claim;
    const mayWait = request.waitMs > 0;
    // Another request with this key may have been served in the meantime.
    if (claim.isOver && !(await this.#hasServed(request.idempotency))) return EMPTY;
    await this.#assertCovers(request);
    claim.tries += 1;
    claim.version = mayWait ? this.waiting.version : 0;
    capacity?.reset();
    const isIdle = mayWait && claim.tries === 1 && this.waiting.isQueueEmpty;
    if (isIdle && !(await this.#hasServed(request.idempotency))) return EMPTY;
    const outcome = await this.journal.claim(request);
    if (mayWait && outcome.worker) worker.offer = offerOf(outcome.worker);
    if (mayWait && outcome.isQueueEmpty) this.waiting.noteEmpty(claim.version);
    return outcome;
  }

  /** Waits as long as the outcome of a try asks for. @returns whether the claim tries again */
  async #waitAfter(outcome: ClaimOutcome, claim: Waiting): Promise<boolean> {
    const { kind, runs } = outcome;
    const { request, worker, capacity, version, endsAt } = claim;
    const { workerId, caller, signal } = request;
    const leftMs = endsAt - monotonicMs();
    switch (kind) {
      case 'served':
      case 'replayed':
        // Replayed runs are not those that the claim was woken for.
        this.#settle(claim, kind, kind === 'served' ? runs.map(({ run }) => run) : []);
        return false;
      case 'contended':
        if (leftMs <= 0 && claim.tries >= MAX_TRIES) {
          // An empty answer would say that its key was never served.
          if (outcome.isReplay) throw new JournalOverloaded();
          this.#settle(claim, kind);
          return false;
        }
        await sleep(claim.pauseMs, undefined, { signal }).catch(() => undefined);
        claim.pauseMs = Math.min(claim.pauseMs * 2, LONGEST_PAUSE_MS);
        return !signal.aborted;
      case 'refused':
        if (caller && outcome.worker) assertCovers(caller, outcome.worker);
        // Runs must not wake this claim in the place of one that may take them.
        this.#settle(claim, kind);
        return leftMs > 0 && this.waiting.waitForWorker(workerId, leftMs, signal);
      case 'empty':
        this.#settle(claim, kind);
        if (leftMs <= 0 || claim.isOver) return false;
        claim.pauseMs = FIRST_PAUSE_MS;
        claim.wakeUp = await this.waiting.wait(version, capacity, leftMs, signal, worker);
        claim.isOver = claim.wakeUp === null;
        return !signal.aborted || claim.wakeUp !== null;
    }
  }

  /** Reports the outcome of the try for which the claim was woken. */
  #settle(claim: Waiting, kind: ClaimOutcome['kind'], taken: readonly Demands[] = []): void {
    claim.wakeUp?.settle(kind, taken);
    claim.wakeUp = null;
  }

  /** Whether a claim with this key has got runs. */
  async #hasServed(idempotency: Idempotency | undefined): Promise<boolean> {
    return idempotency !== undefined && (await this.#served.load(idempotency.scope)) !== undefined;
  }

  /** A claim that does not reach the journal, or is repeated there, is not checked against its worker. @throws KeyOfOtherTags */
  async #assertCovers({ workerId, caller }: ClaimRequest): Promise<void> {
    if (!caller || (caller.workerTags === null && caller.workerCapabilities === null)) return;
    const worker = await this.pool.find(workerId);
    if (worker) assertCovers(caller, worker);
  }
}
