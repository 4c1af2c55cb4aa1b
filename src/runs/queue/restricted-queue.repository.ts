import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { execute, plainArray } from '../../database/sql/sql.js';
import type { Run } from '../machine/run.js';
import { RESTRICTED } from '../storage/run-columns.js';
import { ConcurrencyKeys, countByKey, type AdmittedRun, type ConcurrencySlot } from './concurrency-keys.js';
import { MAX_NAMED, RESTRICTED_CHANNEL } from './restricted-notifications.js';
import { laneOf } from './lane.js';
import { LaneRepository, LANES } from './lane.repository.js';
import { Lanes } from './lanes.js';

/** Bytes of a notification, at most. */
const NOTIFICATION_BYTES = 7_500;

const PLACE = RESTRICTED.except('passedOverAt', 'reservedFor', 'alike', 'isAdmitted');
const NEW_ENTRIES = RESTRICTED.unnest(PLACE);
const PUT = `insert into ${RESTRICTED.name} (${RESTRICTED.columns([...PLACE, 'alike', 'isAdmitted'])})
       select ${RESTRICTED.columns(PLACE, 'v')},
              hashtextextended(
                concat_ws(' ', v.lane, v.concurrency_limit, v.cpu, v.ram_mb, v.vram_mb), 0
              ),
              v.concurrency_key is null
         from ${NEW_ENTRIES.sql}
           on conflict (run_id) do update
          set priority = excluded.priority,
              lane = excluded.lane,
              alike = excluded.alike`;

/** What a group changes in the restricted queue. */
export interface RestrictedChange {
  /** Runs that enter the queue or change in it. */
  readonly entering: readonly Run[];
  readonly leaving: readonly Run[];
  /** Keys whose runs change, and by how many the number of those in execution changes; new slots are counted. */
  readonly keys: ReadonlyMap<string, number>;
  /** Containers that may still be executed after a change. */
  readonly slots: readonly ConcurrencySlot[];
}

/** SQL of the table `restricted_queue`: the pending runs that have requirements on their worker, or a concurrency key. */
@Injectable()
export class RestrictedQueueRepository {
  constructor(
    private readonly lanes: LaneRepository,
    readonly keys: ConcurrencyKeys,
    private readonly active: Lanes,
  ) {}

  /**
   * Writes the change. The caller has locked the runs; then come their lanes, their keys and the queue.
   * @returns runs that claims may read now: those without a key that entered, and those that their keys admit
   */
  async write(
    manager: EntityManager,
    { entering, leaving, keys, slots }: RestrictedChange,
  ): Promise<AdmittedRun[]> {
    this.active.expect(await this.lanes.ensure(manager, entering));
    const [, , , admitted] = await Promise.all([
      keys.size > 0 && this.keys.add(manager, keys),
      leaving.length > 0 && this.remove(manager, leaving),
      entering.length > 0 && this.put(manager, entering),
      keys.size > 0 ? this.keys.admit(manager, [...keys.keys()]) : [],
      slots.length > 0 && this.keys.holdSlots(manager, slots),
    ]);
    const free = entering.filter(({ concurrencyKey }) => concurrencyKey === null);
    return [...free.map((run) => ({ id: run.id, lane: laneOf(run) })), ...admitted];
  }

  /** As {@link ConcurrencyKeys.releaseSlotsOf}, and lets runs of the keys start. @returns whether the worker holds no more slots */
  async releaseSlotsOf(manager: EntityManager, workerId: string, named: readonly string[]): Promise<boolean> {
    const { keys, isLast } = await this.keys.releaseSlotsOf(manager, workerId, named);
    await this.#admitAndAnnounce(manager, keys);
    return isLast;
  }

  /** Frees slots whose time is over, and lets runs of their keys start. @returns the number of these keys */
  async releaseOverdueSlots(manager: EntityManager): Promise<number> {
    const keys = await this.keys.releaseOverdueSlots(manager);
    await this.#admitAndAnnounce(manager, keys);
    return keys.length;
  }

  async #admitAndAnnounce(manager: EntityManager, keys: readonly string[]): Promise<void> {
    const admitted = keys.length === 0 ? [] : await this.keys.admit(manager, keys);
    if (admitted.length > 0) await this.announce(manager, admitted);
  }

  /** Those with a key are not admitted yet, or stay as they are. */
  async put(manager: EntityManager, entering: readonly Run[]): Promise<void> {
    const params = NEW_ENTRIES.params(entering, {
      runId: ({ id }) => id,
      lane: laneOf,
    });
    await execute(manager, PUT, params);
  }

  async remove(manager: EntityManager, runs: readonly Run[]): Promise<void> {
    await execute(
      manager,
      `delete from ${RESTRICTED.name}
        where run_id = any($1::uuid[])`,
      [plainArray(runs.map(({ id }) => id))],
    );
  }

  /** Removes runs that claims got, and counts them for their keys, which the transaction holds. */
  async take(manager: EntityManager, assigned: readonly Run[]): Promise<void> {
    const executing = countByKey(assigned);
    await Promise.all([
      this.remove(manager, assigned),
      executing.size > 0 && this.keys.add(manager, executing),
    ]);
  }

  /** Adapts what the keys of taken runs admit. @returns runs that claims may read now */
  async admitAfter(manager: EntityManager, taken: readonly Run[]): Promise<AdmittedRun[]> {
    const keys = [...countByKey(taken).keys()];
    return keys.length === 0 ? [] : this.keys.admit(manager, keys);
  }

  /** Notifies every process, at the commit, of runs that became claimable, and of their lanes. */
  async announce(manager: EntityManager, runs: readonly AdmittedRun[]): Promise<void> {
    const lanes = [...new Set(runs.map(({ lane }) => lane))];
    await execute(
      manager,
      `select pg_notify('${RESTRICTED_CHANNEL}', case
                when octet_length(p.full) <= ${NOTIFICATION_BYTES} then p.full
                else json_build_object('count', $1::integer)::text
              end)
         from (
           select json_build_object('count', $1::integer, 'lanes', json_object_agg(id, required))::text as full
             from ${LANES.name}
            where id = any($2::uuid[])
         ) p`,
      [runs.length, plainArray(lanes.length > MAX_NAMED ? [] : lanes)],
    );
  }
}
