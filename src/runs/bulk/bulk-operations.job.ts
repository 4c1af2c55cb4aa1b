import { Injectable } from '@nestjs/common';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import {
  type JobRun,
  MINUTE,
  RETENTION,
  SECOND,
  ScheduledJob,
} from '../../common/scheduling/scheduled-job.js';
import { inBatches, paced } from '../../database/sql/in-batches.js';
import type { BulkRefusal } from '../../database/entities/bulk-operation.entity.js';
import type { RunCommand } from '../machine/run-command.js';
import { MANUAL_RETRY, userCancel } from '../machine/run-event.js';
import { isRunState } from '../machine/run-state.js';
import { eventCommand } from '../runs.service.js';
import { BulkOperationRepository, type BulkOperation, type BulkPage } from './bulk-operations.repository.js';
import { BulkRunsService } from './bulk-runs.service.js';
import { checkedValue } from './bulk-request.js';

export const BULK_OPERATIONS = 'bulk_operations';

/** Milliseconds for which an operation is kept after its end. */
export const KEEP_OPERATIONS_MS = 30 * 24 * 60 * MINUTE;

/** Operations that one statement removes, at most. */
const OPERATIONS_PER_BATCH = 1000;

/**
 * Carries out bulk operations, one page after the other; several operations take turns. A page may be begun by several processes, after a crash: each
 * of its commands has an idempotency key, so it changes its run once, and the page is counted once.
 */
@Injectable()
export class BulkOperationsJob {
  constructor(
    private readonly operations: BulkOperationRepository,
    private readonly bulk: BulkRunsService,
    private readonly scheduler: JobScheduler,
  ) {}

  @ScheduledJob({
    name: BULK_OPERATIONS,
    description: 'carries out bulk operations; also runs when one is started',
    everyMs: MINUTE,
    jitterMs: 20,
    firstDelayMs: 0,
    level: 'debug',
    retry: { firstMs: SECOND, longestMs: 10 * SECOND },
  })
  run({ stop }: JobRun): Promise<number> {
    return this.runOnce(stop);
  }

  @ScheduledJob({
    name: 'bulk_operation_retention',
    description: 'removes bulk operations that ended 30 days ago',
    ...RETENTION,
    everyMs: 10 * MINUTE,
  })
  async removeOld({ now, stop }: JobRun): Promise<number> {
    const before = new Date((await now()).getTime() - KEEP_OPERATIONS_MS);
    return inBatches(OPERATIONS_PER_BATCH, stop, () =>
      paced(stop, () => this.operations.removeEnded(before, OPERATIONS_PER_BATCH)),
    );
  }

  /**
   * Processes the pages that are due, with pauses between them.
   * @returns the number of their runs
   * @throws JournalOverloaded, TooManyWaiting, or an error of the unavailable database; the page is begun again later
   */
  async runOnce(stop?: AbortSignal): Promise<number> {
    let runs = 0;
    for (let isLast = stop?.aborted === true; !isLast;) {
      const processed = await paced(stop, () => this.#processPage());
      runs += processed ?? 0;
      isLast = processed === null || stop?.aborted === true;
    }
    const inMs = await this.operations.nextDueInMs();
    if (inMs !== null) this.scheduler.runWithin(BULK_OPERATIONS, inMs);
    return runs;
  }

  /** @returns the number of its runs; null: none is due */
  async #processPage(): Promise<number | null> {
    const page = await this.operations.takePage();
    if (page === null) return null;
    try {
      await this.operations.finishPage(page, await this.#change(page));
    } catch (error) {
      await this.operations.postponePage(page);
      throw error;
    }
    return page.page.length;
  }

  /** Changes the runs of a page. @returns those that were refused */
  async #change(operation: BulkPage): Promise<readonly BulkRefusal[]> {
    const { id: operationId, keyId, onlyIn } = operation;
    const command = commandOf(operation);
    // Those of an admin's key do not go before other requests either.
    const caller = { id: keyId, scopes: new Set(['client'] as const) };
    const refused: BulkRefusal[] = [];
    for (let left = operation.page; left.length > 0;) {
      const results = await this.bulk.change(command, left, (id) => ({
        idempotency: { scope: `${operationId}/${id}`, requestHash: operationId },
        onlyIn: onlyIn !== null && isRunState(onlyIn) ? onlyIn : undefined,
        caller,
      }));
      const unanswered: string[] = [];
      for (const [index, id] of left.entries()) {
        const result = results[index];
        if (result === undefined || !('error' in result)) continue;
        if (result.status === 503 || result.status === 429) unanswered.push(id);
        else refused.push({ id, detail: result.error.detail });
      }
      left = unanswered;
    }
    return refused;
  }
}

function commandOf({ action, value, reason, keyId, keyName }: BulkOperation): RunCommand {
  const reporter = { sender: keyId };
  switch (action) {
    case 'cancel':
      return eventCommand(userCancel(reason ?? undefined), reporter);
    case 'retry':
      return eventCommand(MANUAL_RETRY, reporter);
    case 'priority':
      return { type: 'patch', keyName, priority: Number(value) };
    case 'labels': {
      const labels = checkedValue(action, value ?? undefined);
      return { type: 'label', keyName, labels: labels !== null && typeof labels === 'object' ? labels : {} };
    }
  }
}
