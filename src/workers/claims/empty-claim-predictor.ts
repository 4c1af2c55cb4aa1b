import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { LostRunRepository, type HolderPage } from '../../runs/storage/lost-run.repository.js';
import type { Claim, ClaimOutcome } from '../../runs/journal/claim.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import { ServedNotifications } from './served-notifications.js';
import { WaitingClaims } from './waiting-claims.js';

/** For so long a look at the database is believed while nothing is heard that speaks against it, in milliseconds. */
const BELIEVED_MS = 10_000;

/** Holders that one look reads at most; where there are more, nobody's are known. */
const MOST_HOLDERS = 1_000;

/** What the database said at one moment. */
interface Look {
  /** Before it was asked, by `performance.now()`. */
  readonly at: number;
  /** Of the news of the queue, before it was asked. */
  readonly version: number;
  readonly isQueueEmpty: boolean;
  /** Workers that held runs; null: too many to tell. */
  readonly holders: ReadonlySet<string> | null;
  /** Workers that were given runs by this process since it was asked. */
  readonly given: Set<string>;
}

/**
 * Knows of claims that they would find nothing, so that a thousand workers that wait ask the database nothing. It goes
 * by the last look, which the reaper's pass brings along, and by what was announced since. A claim would find nothing
 * when the queue was empty and no run has become claimable since, and when its key can have brought nothing: its worker
 * held no run and has been given none since, by whatever process. What is not known for certain counts as unknown.
 */
@Injectable()
export class EmptyClaimPredictor {
  readonly #underWay = new Map<string, number>();
  readonly #givenMeanwhile = new Set<Set<string>>();
  #look: Look | undefined;
  #empty: { readonly at: number; readonly version: number } | undefined;
  #isWanted = false;
  #refreshing: Promise<unknown> | undefined;

  constructor(
    @Inject(RunJournal) private readonly journal: Pick<RunJournal, 'claim'>,
    private readonly waiting: WaitingClaims,
    private readonly served: ServedNotifications,
    private readonly repository: LostRunRepository,
    private readonly dataSource: DataSource,
  ) {}

  /** Hands a claim in to the journal, and notes what came of it. @throws what the journal throws */
  async claim(claim: Claim): Promise<ClaimOutcome> {
    const { workerId, desk } = claim;
    const announcement = claim.idempotency ? this.served.announcement() : null;
    const asked = { at: performance.now(), version: this.#isWanted ? this.waiting.version : 0 };
    this.#underWay.set(workerId, (this.#underWay.get(workerId) ?? 0) + 1);
    let mayHold = true;
    try {
      const outcome = await this.journal.claim({ ...claim, announcement });
      mayHold = outcome.runs.length > 0;
      // Nothing for one worker is nothing for any where all are given the head of the queue.
      const isEmpty = outcome.kind === 'nothing' && desk.strategy.isFifo === true;
      if (this.#isWanted && isEmpty && asked.at > (this.#empty?.at ?? -Infinity)) this.#empty = asked;
      return outcome;
    } finally {
      if (mayHold) for (const given of this.#givenMeanwhile) given.add(workerId);
      const others = (this.#underWay.get(workerId) ?? 1) - 1;
      if (others > 0) this.#underWay.set(workerId, others);
      else this.#underWay.delete(workerId);
    }
  }

  /** Whether a claim that may wait can go to waiting without a look: the queue and its key, if it has one, bring nothing. */
  async hasNothingFor(workerId: string, hasKey: boolean): Promise<boolean> {
    await this.#freshen();
    return this.#isQueueEmpty() && (!hasKey || this.#isKeyUnserved(workerId));
  }

  /** Whether no claim of the worker can have been served under the key that one of its claims waits with. */
  async hasServedNothing(workerId: string): Promise<boolean> {
    await this.#freshen();
    return this.#isKeyUnserved(workerId);
  }

  /** Takes note of a look at the first page of all workers that hold runs. @throws what it fails with */
  async observe(limit: number, ask: () => Promise<HolderPage>): Promise<HolderPage> {
    if (!this.#isWanted) return ask();
    const at = performance.now();
    const { version } = this.waiting;
    const given = new Set<string>();
    this.#givenMeanwhile.add(given);
    let isLast = false;
    try {
      const page = await ask();
      const { holders, isQueueEmpty } = page;
      isLast = at > (this.#look?.at ?? -Infinity);
      if (isLast) {
        if (this.#look) this.#givenMeanwhile.delete(this.#look.given);
        const known = holders.length < limit ? new Set(holders.map(({ workerId }) => workerId)) : null;
        this.#look = { at, version, isQueueEmpty, holders: known, given };
        if (isQueueEmpty) this.#empty = { at, version };
      }
      return page;
    } finally {
      if (!isLast) this.#givenMeanwhile.delete(given);
    }
  }

  #isQueueEmpty(): boolean {
    const { version, isListening } = this.waiting;
    return isListening && this.#empty?.version === version && isBelieved(this.#empty);
  }

  #isKeyUnserved(workerId: string): boolean {
    const look = this.#look;
    if (!look?.holders || !isBelieved(look) || !this.served.isQuietSince(look.at)) return false;
    return !look.holders.has(workerId) && !look.given.has(workerId) && !this.#underWay.has(workerId);
  }

  /** Looks, once for all who ask, when the last look is too old. */
  async #freshen(): Promise<void> {
    if (!this.#isWanted) {
      this.#isWanted = true;
      this.served.listen();
    }
    if (!this.waiting.isListening || (this.#look && isBelieved(this.#look))) return;
    this.#refreshing ??= this.observe(MOST_HOLDERS, () =>
      this.repository.listHolders(this.dataSource, '', 0, MOST_HOLDERS),
    )
      // The claim itself finds out what is wrong.
      .catch(() => undefined)
      .finally(() => {
        this.#refreshing = undefined;
      });
    await this.#refreshing;
  }
}

function isBelieved({ at }: { readonly at: number }): boolean {
  return performance.now() - at <= BELIEVED_MS;
}
