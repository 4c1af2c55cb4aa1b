import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { Caller } from '../auth/access.js';
import { recordChange } from '../auth/audit-log.js';
import { JobScheduler } from '../common/scheduling/job-scheduler.js';
import {
  IdempotencyLedger,
  IdempotencyRepository,
  type Idempotency,
} from '../runs/idempotency/idempotency.repository.js';
import type { BatchChange } from '../runs/journal/command.js';
import { RunJournal } from '../runs/journal/run-journal.js';
import { GROUP_LEDGER } from './group-ledger.js';
import { stopGroup } from './group-changes.js';
import { GroupRepository } from './group.repository.js';
import { GroupRejected } from './groups.errors.js';
import { ArrayMembers } from './members/array-members.js';
import { DEPENDENCIES, GROUP_MEMBERS } from './members/groups.job.js';
import { planRetry } from './members/retry-plan.js';

/** Pages of a cancelled group that the request itself cancels. */
const CANCELLED_PAGES = 3;

/** Members that are opened again together. */
const RETRIED_PER_BATCH = 1_000;

/** A request for another try. */
interface Retry {
  readonly only: 'failed' | 'all';
  /** Members that have ended since do not count; null: all do. */
  readonly before: Date | null;
  /** Whether an earlier request with its key has begun it, and perhaps not ended it. */
  readonly isRepeated: boolean;
}

/** What is done with all members of a group, once for each idempotency key. */
@Injectable()
export class GroupCommands {
  constructor(
    private readonly dataSource: DataSource,
    private readonly groups: GroupRepository,
    private readonly arrays: ArrayMembers,
    private readonly journal: RunJournal,
    private readonly keys: IdempotencyRepository,
    private readonly scheduler: JobScheduler,
  ) {}

  /**
   * Cancels the members that have not ended; no more are made.
   * @returns whether an earlier request with the key has done it
   * @throws GroupNotFound, GroupRejected, IdempotencyMismatch; the key is not used then
   */
  async cancel(
    id: string,
    reason: string | undefined,
    caller: Caller,
    idempotency: Idempotency | undefined,
  ): Promise<boolean> {
    await this.groups.get(id);
    const stopped = await this.dataSource.transaction(async (manager) => {
      if (idempotency) {
        const registered = await this.keys.register(manager, [{ ...idempotency, runId: id }]);
        if (new IdempotencyLedger(registered).replayOf(idempotency) !== null) return null;
      }
      const group = await stopGroup(manager, id, 'user', reason ?? 'Cancelled by user');
      if (!group) throw new GroupRejected(`Group '${id}' has ended, or is being cancelled`);
      const change = { action: 'group.cancel', subject: id, before: {}, after: { reason } } as const;
      await recordChange(manager, caller, change);
      return group;
    });
    if (stopped)
      for (let page = 0; page < CANCELLED_PAGES; page += 1)
        if ((await this.arrays.advance(stopped)) === 0) break;
    this.scheduler.runWithin(GROUP_MEMBERS, 0);
    this.scheduler.runWithin(DEPENDENCIES, 0);
    return stopped === null;
  }

  /**
   * Opens members again. A repeated request goes on with what is left of the first: only members count that had ended before that.
   * @returns whether it is a repeated one
   * @throws GroupNotFound, GroupRejected if there is none, IdempotencyMismatch; the key is not used then
   */
  async retry(
    id: string,
    only: Retry['only'],
    caller: Caller,
    idempotency: Idempotency | undefined,
  ): Promise<boolean> {
    await this.groups.get(id);
    const retry: Retry = { only, ...(await this.#begin(id, idempotency)) };
    const isChanged = await this.#reopen(id, retry, caller);
    if (!isChanged && !retry.isRepeated && !(await this.#isChangedSince(id, retry.before))) {
      if (idempotency) await this.keys.forget(this.dataSource.manager, [idempotency.scope]);
      throw new GroupRejected(`Group '${id}' has no members to be tried again`);
    }
    if (isChanged) {
      const change = { action: 'group.retry', subject: id, before: {}, after: { only } } as const;
      await recordChange(this.dataSource, caller, change);
    }
    this.scheduler.runWithin(GROUP_MEMBERS, 0);
    return retry.isRepeated;
  }

  /** @throws IdempotencyMismatch */
  async #begin(
    id: string,
    idempotency: Idempotency | undefined,
  ): Promise<Pick<Retry, 'before' | 'isRepeated'>> {
    if (!idempotency) return { before: null, isRepeated: false };
    const registered = await this.keys.register(this.dataSource.manager, [{ ...idempotency, runId: id }]);
    const isRepeated = new IdempotencyLedger(registered).replayOf(idempotency) !== null;
    return { before: registered.get(idempotency.scope)?.createdAt ?? null, isRepeated };
  }

  /** Whether another request with the same key may have done it, at the same time. */
  async #isChangedSince(id: string, before: Date | null): Promise<boolean> {
    return before !== null && (await this.groups.get(id)).updatedAt > before;
  }

  /** @returns whether there were any */
  async #reopen(id: string, { only, before, isRepeated }: Retry, caller: Caller): Promise<boolean> {
    const group = await this.groups.get(id);
    const hadEnded = !isRepeated || (before !== null && group.endedAt !== null && group.endedAt <= before);
    const isCutShort = group.created < group.size && group.stopCause !== null;
    const makesMore = hadEnded && isCutShort && !(await this.groups.isBroken(id));
    let isChanged = false;
    // As long as members of an array have FAILED, it may be stopped again, which cancels the others.
    for (const haveFailed of group.arrayBody === null ? [null] : [true, false]) {
      let after: string | null = null;
      for (;;) {
        const found = await this.groups.listMembers(id, after, RETRIED_PER_BATCH, haveFailed);
        const edges = found.length === 0 ? [] : await this.groups.listEdges(found.map((one) => one.id));
        const { waits, edges: reopened } = planRetry(found, edges, { only, before });
        const changes = found.flatMap(({ id: runId, state }): BatchChange[] => {
          const waitsFor = waits.get(runId);
          if (waitsFor === undefined) return [];
          return [{ runId, command: { type: 'reopen', waitsFor, sender: caller.keyId }, onlyIn: [state] }];
        });
        if (changes.length > 0 || (makesMore && !isChanged)) {
          const seen = edges.filter(({ child }) => waits.has(child));
          const record = { kind: 'retry', groupId: id, reopened, seen } as const;
          const isDone = await this.journal.carryOut({ ledger: GROUP_LEDGER, record, changes }, caller);
          if (!isDone) continue;
          isChanged = true;
        }
        const last = found.at(-1);
        if (last === undefined || found.length < RETRIED_PER_BATCH) break;
        after = last.id;
      }
    }
    return isChanged;
  }
}
