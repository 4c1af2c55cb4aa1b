import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { NoticeSource } from '../../database/notices/commit-notices.js';
import { offeredOf, serves, type Lane, type Offer } from './lane.js';
import { listActiveLanes } from './lane.repository.js';
import { readClaimablePart } from './claimable-runs.js';

/** Milliseconds in which it is not asked again whether a lane without visible runs is empty. */
const RECHECK_MS = 1_000;

/** Lanes that are known at least before all are forgotten and read again: some may have lost their runs unnoticed. */
const MIN_KNOWN = 1_000;

interface ActiveLane extends Lane {
  /** The element by which it is found; '': it requires neither tag nor capability. */
  readonly lead: string;
  /** When a run was last known to enter it. */
  version: number;
  checkedAt: number;
}

/**
 * The lanes that may have claimable runs, except the plain one. A process learns of them from the database when it first
 * claims, of a run that it puts into the queue itself at once, of others by the notice of their commit. A claim that finds a lane
 * empty removes it here, so an empty lane costs nothing.
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

  /** @param notices without them every claim asks the database */
  constructor(private readonly notices?: NoticeSource) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notices?.subscribe((notice) => {
      const lanes = notice === null ? null : readClaimablePart(notice.queue ?? {}).lanes;
      if (lanes?.length === 0) return;
      if (lanes !== null) return this.expect(lanes);
      // They are read again, because notices were lost or this one names no lanes.
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

  /**
   * Reads the active lanes unless they are known. @param mayForget false when the transaction has removed runs: a rollback
   * brings them back
   */
  async refresh(manager: EntityManager, mayForget: boolean): Promise<void> {
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

  /** Looks for active lanes whose notice has not arrived. @returns whether there are any */
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

  /** Those of the lanes, in which a claim saw no run, that are to be checked. */
  toCheck(unseen: readonly string[]): string[] {
    const now = performance.now();
    return unseen.filter((id) => {
      const lane = this.#active.get(id);
      if (!lane || now - lane.checkedAt < RECHECK_MS) return false;
      lane.checkedAt = now;
      return true;
    });
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
