import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { recordChange, type Author } from '../../auth/audit-log.js';
import { Log } from '../../common/logging/logger.js';
import { sendNotice } from '../../database/notices/commit-notice.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import { isRunId } from '../machine/new-id.js';
import { ConcurrencyKeys, type EndingAttempt, type NamedAttempt } from './concurrency-keys.js';

/** Follows the programs of ended runs by the heartbeats of their workers: frees their slots when they have ended. */
@Injectable()
export class ConcurrencySlots implements OnModuleInit {
  /** Workers that may hold a slot. */
  readonly #workers = new Set<string>();
  /** Whether notices may have been missed: then the table tells which workers hold one. */
  #isUnknown = true;

  constructor(
    private readonly dataSource: DataSource,
    private readonly keys: ConcurrencyKeys,
    private readonly notices: CommitNotices,
    private readonly log: Log,
  ) {}

  onModuleInit(): void {
    this.notices.subscribe((notice) => {
      if (notice === null) this.#isUnknown = true;
      for (const workerId of notice?.slotWorkers ?? []) this.#workers.add(workerId);
    });
  }

  /**
   * Frees the slots of runs that the worker names no more. Costs statements only while the worker may hold one. Never throws: the
   * next heartbeat tries again, and the clean-up frees what is left.
   * @param named runs that the heartbeat names; undefined: it says nothing of runs
   */
  async noteHeartbeat(workerId: string, named: readonly NamedAttempt[] | undefined): Promise<void> {
    if (this.#isUnknown) await this.#readWorkers();
    if (named === undefined || !this.#workers.delete(workerId)) return;
    const runs = named.filter(({ id }) => isRunId(id));
    const work = (manager: EntityManager) => this.keys.releaseSlotsOf(manager, workerId, runs);
    const isLast = await this.dataSource.transaction(work).catch((error: unknown) => {
      this.log.warn('could not free the slots of ended runs', { workerId, error });
      return false;
    });
    if (!isLast) this.#workers.add(workerId);
  }

  /**
   * Has the programs of an ended run killed by the workers that still execute them.
   * @returns false: none does
   */
  kill(runId: string, by: Author): Promise<boolean> {
    if (!isRunId(runId)) return Promise.resolve(false);
    return this.dataSource.transaction(async (manager) => {
      const workers = await this.keys.kill(manager, runId);
      if (workers.length === 0) return false;
      const after = { workers };
      await recordChange(manager, by, { action: 'run.kill', subject: runId, before: {}, after });
      await sendNotice(manager, { freedWorkers: workers });
      return true;
    });
  }

  /** The attempts among those that a worker names whose programs it is to kill. */
  findKilled(workerId: string, named: readonly EndingAttempt[]): Promise<EndingAttempt[]> {
    const runs = named.filter(({ id }) => isRunId(id));
    if (runs.length === 0) return Promise.resolve([]);
    return this.keys.findKilled(this.dataSource.manager, workerId, runs);
  }

  async #readWorkers(): Promise<void> {
    this.#isUnknown = false;
    try {
      for (const id of await this.keys.listSlotWorkers(this.dataSource.manager)) this.#workers.add(id);
    } catch (error) {
      this.#isUnknown = true;
      this.log.warn('could not read which workers end programs', { error });
    }
  }
}
