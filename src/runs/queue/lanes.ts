import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { CommitNotices, type NoticeSource } from '../../database/notices/commit-notices.js';
import { plainArray, rows } from '../../database/sql/sql.js';
import type { CandidateQuery, Claimant, QueuedRun, Shape } from '../scheduling-strategy.js';
import { MACHINE_COLUMNS, QUEUE, QUEUE_NOTES, RUNS } from '../storage/run-columns.js';
import { MAX_GPUS } from '../machine/event-types.js';
import { readClaimablePart, offeredOf, offerOf, PLAIN, serves, type Lane, type Offer } from './lane.js';
import { CONCURRENCY_KEYS } from './concurrency-keys.js';
import { findEmptyLanes, listActiveLanes } from './lane.repository.js';

/** Milliseconds in which it is not asked again whether a lane without visible runs is empty. */
const RECHECK_MS = 1_000;

/** Lanes that are known at least before all are forgotten and read again: some may have lost their runs unnoticed. */
const MIN_KNOWN = 1_000;

/** A shape that every run fits into. */
const UNLIMITED: Shape = {
  cpuMillis: 2 ** 31 * 1000,
  ramMb: 2 ** 31 - 1,
  vramMb: 2 ** 31 - 1,
  gpus: MAX_GPUS,
};

/** Runs beyond the limit of the strategy that one claim considers: keys of the first ones may be full or locked. */
const LOOK_AHEAD = 16;

/** A run of the queue that claims may read. */
export interface CandidateRun extends QueuedRun {
  readonly lane: string;
  /** Runs with its key that are in execution; null: it has no key. */
  readonly executing: number | null;
}

const LIST = listOf(false);
const LIST_WITH_PASSED_OVER = listOf(true);

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
  /** False when the transaction has removed runs: a rollback brings them back. */
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
  constructor(@Inject(CommitNotices) private readonly notices?: NoticeSource) {}

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
    const { limit, capacity = [UNLIMITED], free = [], passedOverBefore } = query;
    const shapes = distinct([...capacity, ...free]);
    const served = [...kinds.values()].flatMap((list, kind) => list.map(({ id }) => ({ kind, id })));
    const params = [
      served.map(({ kind }) => kind),
      plainArray(served.map(({ id }) => id)),
      shapes.map(({ cpuMillis }) => cpuMillis),
      shapes.map(({ ramMb }) => ramMb),
      shapes.map(({ vramMb }) => vramMb),
      shapes.map(({ gpus }) => gpus),
      limit + LOOK_AHEAD + except.length,
      claimants.map(({ id }) => id),
      except,
    ];
    const runs = await (passedOverBefore
      ? rows<CandidateRun>(manager, LIST_WITH_PASSED_OVER, [...params, passedOverBefore.toISOString()])
      : rows<CandidateRun>(manager, LIST, params));
    if (mayForget) await this.#forgetEmpty(manager, lanes, runs, version);
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

  /** Checks the lanes in which a claim saw no run. */
  async #forgetEmpty(
    manager: EntityManager,
    lanes: ReadonlyMap<string, Lane>,
    runs: readonly CandidateRun[],
    version: number,
  ): Promise<void> {
    const seen = new Set(runs.map(({ lane }) => lane));
    const now = performance.now();
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

function listOf(withPassedOver: boolean): string {
  // Claimants that may serve the same lanes are of one kind. The first runs of each lane are read once, by one index step;
  // each kind gets the first of its lanes: runs that no claimant may get, and runs whose key is full, cost nothing. `offset 0`
  // keeps the planner from joining by a scan of the whole table.
  return `with served as materialized (
         select *
           from unnest($1::integer[], $2::uuid[]) as s (kind, lane)
       ),
       lane as materialized (
         select distinct lane as id
           from served
       ),
       shape as materialized (
         select row_number() over () as n, s.*
           from unnest($3::bigint[], $4::integer[], $5::integer[], $6::integer[]) as s (cpu_millis, ram_mb, vram_mb, gpus)
       ),
       first as (
         ${firstOfKind('true')}
          union
         ${withPassedOver ? `${firstOfKind('q.passed_over_at is not null and q.passed_over_at <= $10::timestamptz')} union` : ''}
         select q.run_id
           from (
             select run_id, lane
               from ${QUEUE.name}
              where reserved_for is not null
                and reserved_for = any($8::text[])
                and is_admitted
             offset 0
           ) q
           join lane l on l.id = q.lane
       )
       select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}, q.lane,
              case
                when q.concurrency_key is not null
                then coalesce((select k.executing from ${CONCURRENCY_KEYS.name} k where k.key = q.concurrency_key), 0)
              end as executing
         from first f
        cross join lateral (select * from ${QUEUE.name} where run_id = f.run_id offset 0) q
        cross join lateral (select * from ${RUNS.name} where id = f.run_id offset 0) r
        where not f.run_id = any($9::uuid[])
        order by q.priority desc, q.created_at, q.run_id`;
}

/** For each kind of claimants and shape, its first rows with the condition. */
function firstOfKind(condition: string): string {
  return `(select n.run_id
           from (
             select f.run_id, row_number() over (partition by s.kind, f.shape order by f.priority desc, f.created_at, f.run_id) as nth
               from (
                 select l.id as lane, s.n as shape, q.*
                   from lane l
                  cross join shape s
                  cross join lateral (
                    select q.run_id, q.priority, q.created_at
                      from ${QUEUE.name} q
                     where q.lane = l.id
                       and q.is_admitted
                       and ${condition}
                       and q.cpu_millis <= s.cpu_millis
                       and q.ram_mb <= s.ram_mb
                       and q.vram_mb <= s.vram_mb
                       and q.gpus <= s.gpus
                     order by priority desc, created_at, run_id
                     limit $7::integer
                  ) q
               ) f
               join served s on s.lane = f.lane
           ) n
          where n.nth <= $7::integer)`;
}

function distinct(shapes: readonly Shape[]): Shape[] {
  return [...new Map(shapes.map((shape) => [Object.values(shape).join(), shape])).values()];
}
