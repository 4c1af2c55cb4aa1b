import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Log } from '../../common/logging/logger.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import { isRunId } from '../machine/new-id.js';
import { ConcurrencyKeys } from './concurrency-keys.js';

/** Frees the slots of concurrency keys whose containers have ended, by the heartbeats of their workers. */
@Injectable()
export class ConcurrencySlots implements OnModuleInit {
  /** Workers that may hold a slot. A process that misses a notice leaves the slot to the clean-up of the queue. */
  readonly #workers = new Set<string>();

  constructor(
    private readonly dataSource: DataSource,
    private readonly keys: ConcurrencyKeys,
    private readonly notices: CommitNotices,
    private readonly log: Log,
  ) {}

  onModuleInit(): void {
    this.notices.subscribe((notice) => {
      for (const workerId of notice?.slotWorkers ?? []) this.#workers.add(workerId);
    });
  }

  /**
   * Frees the slots of runs that the worker names no more. Costs statements only while the worker may hold one. Never throws: the
   * next heartbeat tries again, and the clean-up frees what is left.
   * @param named runs that the heartbeat names; undefined: it says nothing of runs
   */
  async noteHeartbeat(
    workerId: string,
    named: readonly { readonly id: string }[] | undefined,
  ): Promise<void> {
    if (named === undefined || !this.#workers.delete(workerId)) return;
    const ids = named.map(({ id }) => id).filter(isRunId);
    const work = (manager: EntityManager) => this.keys.releaseSlotsOf(manager, workerId, ids);
    const isLast = await this.dataSource.transaction(work).catch((error: unknown) => {
      this.log.warn('could not free the slots of a concurrency key', { workerId, error });
      return false;
    });
    if (!isLast) this.#workers.add(workerId);
  }
}
