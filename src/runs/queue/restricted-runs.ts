import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql/sql.js';
import { requirementList } from '../requirements.js';
import type { CandidateQuery, Claimant, QueuedRun, Shape } from '../scheduling-strategy.js';
import { MACHINE_COLUMNS, QUEUE_NOTES, RESTRICTED, RUNS } from '../storage/run-columns.js';
import { byIndexOrder } from './by-index-order.js';
import { KEYS } from './concurrency-keys.js';
import { RESTRICTED_CHANNEL } from './restricted-notifications.js';
import { NO_REQUIREMENTS, REQUIREMENTS } from './run-requirements.repository.js';
import { WithheldRuns, type QueueNotifications } from './withheld-runs.js';

/** A shape that every run fits into. */
export const UNLIMITED = { cpu: 2 ** 31 - 1, ramMb: 2 ** 31 - 1, vramMb: 2 ** 31 - 1 } as const;

/** Runs beyond the limit of the strategy that one claim considers: keys of the first ones may be full or locked. */
const LOOK_AHEAD = 16;

/** Runs that avoid a worker that one claim considers beyond the limit. */
const AVOIDING_AHEAD = 100;

/** A run of the restricted queue that claims may read. */
export interface RestrictedRun extends QueuedRun {
  /** Runs with its key that are in execution; null: it has no key. */
  readonly executing: number | null;
  /** What its worker must have, as `requirementList`. */
  readonly required: readonly string[];
}

/** What a claim finds of the restricted queue. */
export interface RestrictedRunsFound {
  readonly runs: readonly RestrictedRun[];
  /** Whether the queue has any run, for whatever worker. */
  readonly exist: boolean;
}

const NONE: RestrictedRunsFound = { runs: [], exist: false };

const ORDER = 'q.priority desc, q.created_at, q.run_id';

// Each list of what a worker has leads to the requirements that it meets, by the index of their leads, and each of them to
// its first runs: runs that no claimant may get, and runs whose key is full, cost nothing. Lists that meet the same
// requirements are of one kind, and looked for once.
const LIST = `with offer as materialized (
         select n, list::text[] as has
           from unnest($1::text[]) with ordinality as o (list, n)
       ),
       met_by_each as materialized (
         select n, '${NO_REQUIREMENTS}'::uuid as id, '{}'::text[] as required
           from offer
          union all
         select o.n, u.id, u.required
           from offer o
          cross join lateral unnest(o.has) as e (name)
          cross join lateral (
            select r.id, r.required
              from ${REQUIREMENTS.name} r
             where r.lead = e.name
               and r.required <@ o.has
            offset 0
          ) u
       ),
       offer_kind as materialized (
         select min(n) as n
           from (
             select n, array_agg(id order by id) as ids
               from met_by_each
              group by n
           ) each
          group by ids
       ),
       met as materialized (
         select n, id, required
           from met_by_each
           join offer_kind using (n)
       ),
       shape as materialized (
         select *
           from unnest($2::integer[], $3::integer[], $4::integer[]) as s (cpu, ram_mb, vram_mb)
       ),
       first as (
         ${firstOfOffer('q.is_admitted and q.avoided_worker is null', `$5::integer + ${LOOK_AHEAD}`)}
          union
         ${firstOfOffer('q.is_admitted and q.avoided_worker is not null', `$5::integer + ${AVOIDING_AHEAD}`)}
          union
         ${firstOfOffer('q.is_admitted and q.passed_over_at is not null and q.passed_over_at <= $6::timestamptz', '$5::integer')}
          union
         select m.required, q.run_id
           from ${RESTRICTED.name} q
           join met m on m.id = q.requirement_id
          where q.reserved_for is not null
            and q.reserved_for = any($7::text[])
            and q.is_admitted
            and not q.run_id = any($8::uuid[])
       )
       select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}, f.required,
              case when q.concurrency_key is not null then coalesce(k.executing, 0) end as executing
         from first f
         join ${RESTRICTED.name} q on q.run_id = f.run_id
         join ${RUNS.name} r on r.id = f.run_id
         left join ${KEYS.name} k on k.key = q.concurrency_key
        order by ${ORDER}`;

/** SQL: whether the restricted queue has a run, of those that are admitted or not. It reads the first row of an index. */
export const RESTRICTED_EXIST = `(select q.run_id from ${RESTRICTED.name} q order by ${ORDER} limit 1) is not null`;

/** The runs of the restricted queue that claims may read. */
export class RestrictedRuns extends WithheldRuns {
  /** @param notifications without them every claim asks the database */
  constructor(notifications?: QueueNotifications) {
    super(RESTRICTED_CHANNEL, () => true, notifications);
  }

  /** The first of them that any of the claimants may get by its tags and capabilities, in queue order, without locks. */
  async list(
    manager: EntityManager,
    claimants: readonly Claimant[],
    { limit, capacity = [UNLIMITED], free = [], passedOverBefore }: CandidateQuery,
    except: readonly string[] = [],
  ): Promise<RestrictedRunsFound> {
    if (!this.mayExist) return NONE;
    const { version } = this;
    const offers = new Set(claimants.map((claimant) => arrayText(requirementList(claimant))));
    const shapes = distinct([...capacity, ...free]);
    const params = [
      [...offers],
      shapes.map(({ cpu }) => cpu),
      shapes.map(({ ramMb }) => ramMb),
      shapes.map(({ vramMb }) => vramMb),
      limit,
      passedOverBefore?.toISOString() ?? null,
      claimants.map(({ id }) => id),
      except,
    ];
    const runs = await byIndexOrder(manager, () => rows<RestrictedRun>(manager, LIST, params));
    if (runs.length > 0) return { runs, exist: true };
    const [row] = await rows<{ exist: boolean }>(manager, `select ${RESTRICTED_EXIST} as exist`);
    const exist = row?.exist === true;
    if (!exist) this.foundNone(version);
    return { runs, exist };
  }
}

/** For each offer and shape, its first rows with the condition, among all requirements that it meets. */
function firstOfOffer(condition: string, limit: string): string {
  return `select c.required, c.run_id
           from offer_kind o
          cross join shape s
          cross join lateral (
            select m.required, f.*
              from met m
             cross join lateral (
               select q.run_id, q.priority, q.created_at
                 from ${RESTRICTED.name} q
                where q.requirement_id = m.id
                  and ${condition}
                  and q.cpu <= s.cpu
                  and q.ram_mb <= s.ram_mb
                  and q.vram_mb <= s.vram_mb
                  and not q.run_id = any($8::uuid[])
                order by ${ORDER}
                limit ${limit}
             ) f
             where m.n = o.n
             order by f.priority desc, f.created_at, f.run_id
             limit ${limit}
          ) c`;
}

function distinct(shapes: readonly Shape[]): Shape[] {
  return [...new Map(shapes.map((shape) => [`${shape.cpu} ${shape.ramMb} ${shape.vramMb}`, shape])).values()];
}

/** The literal of a text array. */
function arrayText(values: readonly string[]): string {
  return `{${values.map((value) => `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`).join(',')}}`;
}
