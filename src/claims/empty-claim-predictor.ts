import { randomUUID } from 'node:crypto';
import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { CommitNotices, type NoticeSource } from '../database/notices/commit-notices.js';
import type { Claim, ClaimOutcome } from '../runs/journal/command.js';
import { Lanes } from '../runs/queue/lanes.js';
import { HeldRunRepository } from '../runs/storage/held-run.repository.js';
import { WaitingClaims } from './waiting-claims.js';

/** Time for which a snapshot is used, in milliseconds. */
const MAX_AGE_MS = 10_000;

/** Workers that one snapshot reads at most; with more, it knows none of them. */
const MAX_WORKERS = 1_000;

/** State of the database at one moment. */
interface Snapshot {
  /** When the query was sent, by `performance.now()`. */
  readonly at: number;
  /** Version of the queue when the query was sent. */
  readonly version: number;
  /** Workers with assigned runs; null: too many. */
  readonly assigned: ReadonlySet<string> | null;
  /** Workers to which this process may have assigned runs since the query was sent. */
  readonly servedSince: Set<string>;
}

/** A claim that the journal serves now. */
export interface RecordedClaim extends Required<Pick<Claim, 'servedBy'>> {
  readonly end: (outcome: ClaimOutcome | null) => void;
}

/**
 * Whether other processes serve claims with keys. The notice of such a commit names its process, at most once in five
 * seconds; a process that receives no such notice knows that no such claim was served elsewhere.
 */
@Injectable()
export class ServedNotices implements OnModuleDestroy {
  /**
   * Least time between two announcements of a process, and time for which a received one counts: longer than the first
   * plus the longest delay of a commit. In milliseconds.
   */
  readonly times = { announceEvery: 5_000, validFor: 20_000 };
  readonly #name = randomUUID();
  #announcedAt = -Infinity;
  #receivedAt = Infinity;
  #unsubscribe: (() => void) | undefined;

  constructor(@Inject(CommitNotices) private readonly notices: NoticeSource) {}

  /** The name of this process, which the commit of a claim announces if the claim is served; null: it does not. */
  nameToAnnounce(): string | null {
    this.listen();
    return performance.now() - this.#announcedAt < this.times.announceEvery ? null : this.#name;
  }

  /** Whether no other process has served a claim with a key since the time, by `performance.now()`. */
  isQuietSince(time: number): boolean {
    return this.notices.isListening && time > this.#receivedAt + this.times.validFor;
  }

  listen(): void {
    this.#unsubscribe ??= this.notices.subscribe((notice) => {
      // The own announcement proves that it was committed.
      if (notice?.servedBy === this.#name) this.#announcedAt = performance.now();
      else if (notice === null || notice.servedBy !== undefined) this.#receivedAt = performance.now();
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
  }
}

/**
 * Predicts, without a query, that a claim would return no run, from a recent snapshot of the database and the
 * commit notices since: the queue was empty and no run has become claimable, and the worker of a claim with a key had no
 * run and was assigned none by any process.
 */
@Injectable()
export class EmptyClaimPredictor {
  /** Claims in progress, by worker. */
  readonly #inProgress = new Map<string, number>();
  readonly #recorders = new Set<Set<string>>();
  #snapshot: Snapshot | undefined;
  /** When the queue was last found empty. */
  #empty: Pick<Snapshot, 'at' | 'version'> | undefined;
  /** Set by the first claim that may wait: before, nothing is recorded. */
  #isInUse = false;
  #refreshing: Promise<unknown> | undefined;

  constructor(
    private readonly waiting: WaitingClaims,
    private readonly lanes: Lanes,
    private readonly served: ServedNotices,
    private readonly repository: HeldRunRepository,
    private readonly dataSource: DataSource,
  ) {}

  /** Records a claim that is submitted to the journal. Call `end` with its outcome, or null if it has failed. */
  record({ workerId, context, idempotency }: Claim): RecordedClaim {
    const servedBy = idempotency ? this.served.nameToAnnounce() : null;
    const before = { at: performance.now(), version: this.#isInUse ? this.waiting.version : 0 };
    this.#inProgress.set(workerId, (this.#inProgress.get(workerId) ?? 0) + 1);
    const end = (outcome: ClaimOutcome | null): void => {
      // Where every worker gets the head of the queue, its plain runs are gone for all if they are for one.
      const isEmpty = outcome?.kind === 'empty' && context.strategy.isFifo === true && this.lanes.areEmpty;
      if (this.#isInUse && isEmpty && before.at > (this.#empty?.at ?? -Infinity)) this.#empty = before;
      const mayOwnRuns = outcome === null || outcome.runs.length > 0;
      if (mayOwnRuns) for (const recorder of this.#recorders) recorder.add(workerId);
      const others = (this.#inProgress.get(workerId) ?? 1) - 1;
      if (others > 0) this.#inProgress.set(workerId, others);
      else this.#inProgress.delete(workerId);
    };
    return { servedBy, end };
  }

  /** Whether a claim of the worker would return nothing: neither from the queue nor, if it has one, for its key. */
  async predictsNothing(workerId: string, hasKey: boolean): Promise<boolean> {
    await this.#refresh();
    const isQueueEmpty =
      this.waiting.isListening && this.#empty?.version === this.waiting.version && isRecent(this.#empty);
    return isQueueEmpty && (!hasKey || this.#isKeyUnserved(workerId));
  }

  /** Whether no claim of the worker can have been served under the key of one of its waiting claims. */
  async predictsNoReplay(workerId: string): Promise<boolean> {
    await this.#refresh();
    return this.#isKeyUnserved(workerId);
  }

  /** Takes a snapshot. @throws errors of the database */
  async observe(): Promise<void> {
    const at = performance.now();
    const { version } = this.waiting;
    const servedSince = new Set<string>();
    this.#recorders.add(servedSince);
    let isNewest = false;
    try {
      const page = await this.repository.listAssignedWorkers(this.dataSource, '', 0, MAX_WORKERS);
      isNewest = at > (this.#snapshot?.at ?? -Infinity);
      if (isNewest) {
        if (this.#snapshot) this.#recorders.delete(this.#snapshot.servedSince);
        const assigned =
          page.workers.length < MAX_WORKERS ? new Set(page.workers.map(({ workerId }) => workerId)) : null;
        this.#snapshot = { at, version, assigned, servedSince };
        if (page.isQueueEmpty) this.#empty = { at, version };
      }
    } finally {
      if (!isNewest) this.#recorders.delete(servedSince);
    }
  }

  #isKeyUnserved(workerId: string): boolean {
    const snapshot = this.#snapshot;
    if (!snapshot?.assigned || !isRecent(snapshot) || !this.served.isQuietSince(snapshot.at)) return false;
    const { assigned, servedSince } = snapshot;
    return !assigned.has(workerId) && !servedSince.has(workerId) && !this.#inProgress.has(workerId);
  }

  /** Replaces a snapshot that is too old by one query for all concurrent claims. */
  async #refresh(): Promise<void> {
    if (!this.#isInUse) {
      this.#isInUse = true;
      this.served.listen();
    }
    if (!this.waiting.isListening || (this.#snapshot && isRecent(this.#snapshot))) return;
    this.#refreshing ??= this.observe()
      // The claim itself reports the error.
      .catch(() => undefined)
      .finally(() => void (this.#refreshing = undefined));
    await this.#refreshing;
  }
}

function isRecent({ at }: { readonly at: number }): boolean {
  return performance.now() - at <= MAX_AGE_MS;
}
