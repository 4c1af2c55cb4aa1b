import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { CommitNotices, type NoticeSource } from '../../database/notices/commit-notices.js';
import type { CandidateQuery, Claimant } from '../scheduling-strategy.js';
import { readClaimablePart, offeredOf, offerOf, PLAIN, serves, type Lane, type Offer } from './lane.js';
import { findEmptyLanes, listActiveLanes, listCandidates, type CandidateRun } from './lane.repository.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** Milliseconds in which it is not asked again whether a lane without visible runs is empty. */
const RECHECK_MS = 1_000;

/** Lanes that are known at least before all are forgotten. */
const MIN_KNOWN = 1_000;

/** What a claim considers. */
export interface Candidates {
  readonly runs: readonly CandidateRun[];
  /** The lanes of the runs, by the ids of the runs. */
  readonly lanes: ReadonlyMap<string, Lane>;
}

interface ListOptions {
  /** Ids of runs that are left out. */
  readonly except?: readonly string[];
  /** Whether to list runs of the plain lane. */
  readonly withPlain?: boolean;
  /** False when the transaction has removed runs. */
  readonly mayForget?: boolean;
}

interface ActiveLane extends Lane {
  /** The element by which it is found; '': it requires neither tag nor capability. */
  readonly lead: string;
  /** When a run was last known to enter it. */
  version: number;
  checkedAt: number;
}

/**
 * The lanes that may have claimable runs, except the plain one.
 *
 * It remembers lanes with what they require. A process learns of all from the database when it first claims, of one that it
 * puts a run into at once, before the commit, and of others by the notice of their commit. A lane in which a claim sees no run, and a
 * query finds none, is forgotten unless a run was announced since the claim began (`version`); not in a transaction that has
 * removed runs, because a rollback brings them back. With too many lanes all are forgotten.
 * It has a lane too many after a rollback, or when other processes took its runs: the next claim looks in vain. It lacks one
 * until the notice arrives, and from then on if that is lost. No run is lost: a claim that got nothing asks the database for other lanes
 * (`discover`), all are read again after lost notices and one that names no lanes, and without notices each claim reads them.
 * Empty, it costs a claim nothing; before it is loaded, one statement that reads all active lanes.
 * Proven by lanes.spec.ts, test/integration/queue/lane-waiting.spec.ts and lane-races.spec.ts.
 */
@Injectable()
export class Lanes implements OnModuleInit, OnModuleDestroy {
  readonly #active = new Map<string, ActiveLane>();
  /** A worker looks only through lanes that one of its tags or capabilities leads. */
  readonly #byLead = new Map<string, Set<ActiveLane>>();
  #version = 0;
  #isLoaded = false;
  #losses = 0;
  /** With more lanes, all are forgotten. */
  #mostKnown = MIN_KNOWN;
  #unsubscribe: (() => void) | undefined;

  constructor(@Inject(CommitNotices) private readonly notices?: NoticeSource) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notices?.subscribe((notice) => {
      const lanes = notice === null ? null : readClaimablePart(notice.queue ?? {}).lanes;
      if (lanes?.length === 0) return;
      if (lanes !== null) return this.expect(lanes);
      this.#losses += 1;
      this.#isLoaded = false;
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  /** Read it before a query, for `foundEmpty`. */
  get version(): number {
    return this.#version;
  }

  /** Whether no lane but the plain one has a claimable run. */
  get areEmpty(): boolean {
    return this.#isCurrent && this.#active.size === 0;
  }

  /** Runs of these lanes become claimable. */
  expect(lanes: Iterable<Lane>): void {
    this.#learn(lanes);
    if (this.#active.size <= this.#mostKnown) return;
    this.#active.clear();
    this.#byLead.clear();
    this.#isLoaded = false;
  }

  /** The first runs that any of the claimants may get by its tags and capabilities, in queue order, without locks. */
  async list(
    manager: EntityManager,
    claimants: readonly Claimant[],
    query: CandidateQuery,
    { except = [], withPlain = false, mayForget = true }: ListOptions = {},
  ): Promise<Candidates> {
    await this.#refresh(manager, mayForget);
    const version = this.#version;
    const kinds = new Map<string, readonly Lane[]>();
    for (const claimant of claimants) {
      const served = this.servedBy(offerOf(claimant));
      kinds.set(served.map(({ id }) => id).join(), withPlain ? [PLAIN, ...served] : served);
    }
    const lanes = new Map([...kinds.values()].flat().map((lane) => [lane.id, lane]));
    if (lanes.size === 0) return { runs: [], lanes: new Map() };
    const ids = claimants.map(({ id }) => id);
    const runs = await listCandidates(manager, [...kinds.values()], ids, query, except);
    if (mayForget) await this.forgetEmpty(manager, lanes, runs, version);
    const laneOf = ({ id, lane }: CandidateRun): [string, Lane] => [id, lanes.get(lane) ?? PLAIN];
    return { runs, lanes: new Map(runs.map(laneOf)) };
  }

  /** Reads the active lanes unless they are known. */
  async #refresh(manager: EntityManager, mayForget: boolean): Promise<void> {
    if (this.#isCurrent) return;
    const [isListening, losses, version] = [this.#isListening, this.#losses, this.#version];
    const found = await listActiveLanes(manager);
    this.#mostKnown = Math.max(MIN_KNOWN, 2 * found.length);
    this.#learn(found);
    if (!mayForget) return;
    const ids = new Set(found.map(({ id }) => id));
    this.foundEmpty(
      [...this.#active.keys()].filter((id) => !ids.has(id)),
      version,
    );
    this.#isLoaded = isListening && losses === this.#losses;
  }

  /** Looks for active lanes that are not known. @returns whether there are any */
  async discover(manager: EntityManager): Promise<boolean> {
    const found = await listActiveLanes(manager, [...this.#active.keys()]);
    if (found.length > 0) this.expect(found);
    return found.length > 0;
  }

  /** The active lanes that the worker may serve. */
  servedBy(offer: Offer): Lane[] {
    const leads = ['', ...offer.has];
    return leads.flatMap((lead) => [...(this.#byLead.get(lead) ?? [])].filter((lane) => serves(offer, lane)));
  }

  /**
   * Forgets those of the lanes that have no run; asks of a lane once a second at most. The transaction must not have removed runs.
   * @param lanes default: all that are known, of which some serve no worker that claims here
   * @param runs those that a claim saw in them
   * @param version from before it looked
   */
  async forgetEmpty(
    manager: EntityManager,
    lanes: ReadonlyMap<string, Lane> = this.#active,
    runs: readonly CandidateRun[] = [],
    version = this.#version,
  ): Promise<void> {
    const seen = new Set(runs.map(({ lane }) => lane));
    const now = monotonicMs();
    const unseen = [...lanes.keys()].filter((id) => {
      const lane = this.#active.get(id);
      if (seen.has(id) || !lane || now - lane.checkedAt < RECHECK_MS) return false;
      lane.checkedAt = now;
      return true;
    });
    if (unseen.length > 0) this.foundEmpty(await findEmptyLanes(manager, unseen), version);
  }

  /** A query that began at the version found no run in these lanes. */
  foundEmpty(ids: readonly string[], version: number): void {
    for (const id of ids) {
      const lane = this.#active.get(id);
      if (!lane || lane.version > version) continue;
      this.#active.delete(id);
      const led = this.#byLead.get(lane.lead);
      led?.delete(lane);
      if (led?.size === 0) this.#byLead.delete(lane.lead);
    }
  }

  get #isListening(): boolean {
    return this.#unsubscribe !== undefined && this.notices?.isListening === true;
  }

  get #isCurrent(): boolean {
    return this.#isLoaded && this.#isListening;
  }

  #learn(lanes: Iterable<Lane>): void {
    this.#version += 1;
    for (const { id, required } of lanes) {
      const known = this.#active.get(id);
      if (known) known.version = this.#version;
      else this.#add(id, required);
    }
  }

  #add(id: string, required: readonly string[]): void {
    // The element that leads the fewest lanes: many selectors that share a tag do not share a lead.
    const ledBy = (name: string): number => this.#byLead.get(name)?.size ?? 0;
    const [lead = ''] = offeredOf(required).toSorted((a, b) => ledBy(a) - ledBy(b));
    const lane = { id, required, lead, version: this.#version, checkedAt: -Infinity };
    this.#active.set(id, lane);
    const led = this.#byLead.get(lead) ?? new Set();
    this.#byLead.set(lead, led.add(lane));
  }
}
