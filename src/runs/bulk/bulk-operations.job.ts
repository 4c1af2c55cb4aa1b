import { Injectable, Logger } from '@nestjs/common';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import {
  type JobRun,
  MINUTE,
  RETENTION,
  SECOND,
  ScheduledJob,
} from '../../common/scheduling/scheduled-job.js';
import { inBatches, paced } from '../../database/sql/in-batches.js';
import { DomainError } from '../../common/errors/domain-error.js';
import {
  isDatabaseUnavailable,
  isRetryable,
  isStatementGivenUp,
} from '../../database/failover/unavailable.js';
import { RunJournal } from '../journal/run-journal.js';
import type { RunCommand } from '../machine/run-command.js';
import { MANUAL_RETRY, userCancel } from '../machine/run-event.js';
import { TooManyWaiting } from '../run.errors.js';
import { eventCommand } from '../runs.service.js';
import { BULK_LEDGER } from './bulk-ledger.js';
import { BulkOperationRepository, type BulkOperation, type BulkPage } from './bulk-operations.repository.js';
import { checkedFilter, checkedValue, readFilterQuery } from './bulk-request.js';
import { statesOf } from '../reading/run-filter.js';

export const BULK_OPERATIONS = 'bulk_operations';

/** Milliseconds for which an operation is kept after its end. */
export const KEEP_OPERATIONS_MS = 30 * 24 * 60 * MINUTE;

/** Operations that one statement removes, at most. */
const OPERATIONS_PER_BATCH = 1000;

/** Why a run is refused whose change fails alone, and would fail again. */
const FAILS = 'The run could not be changed: see the log of the service';

/**
 * Carries out bulk operations, one page after the other; API keys take turns. A page may be begun by several processes, after a crash: the journal
 * carries out the first one that moves the operation on.
 */
@Injectable()
export class BulkOperationsJob {
  private readonly logger = new Logger('BulkOperations');

  constructor(
    private readonly operations: BulkOperationRepository,
    private readonly journal: RunJournal,
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
   * @throws JournalOverloaded, or an error of the unavailable database; the page is begun again later
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
      await this.#record(page);
    } catch (error) {
      await this.operations.postponePage(page);
      // The requests of its key leave it no place: the pages of other keys go on.
      if (error instanceof TooManyWaiting) return 0;
      throw error;
    }
    return page.page.length;
  }

  /** Changes the runs of a page, together; if that fails because of one of them, one by one. */
  async #record(operation: BulkPage): Promise<void> {
    const { id: operationId, keyId, processed, action, filter, page } = operation;
    const command = commandOf(operation);
    const onlyIn = statesOf(checkedFilter(action, readFilterQuery(filter), operation, true));
    // Pages of an admin's key do not go before other requests either.
    const caller = { id: keyId, scopes: new Set(['client'] as const) };
    const change = (first: number, runIds: readonly string[], refusal?: string): Promise<boolean> => {
      const changes = runIds.map((runId) => ({ runId, command, onlyIn, refusal }));
      return this.journal.carryOut({ ledger: BULK_LEDGER, record: { operationId, first }, changes }, caller);
    };
    try {
      await change(processed, page);
    } catch (error) {
      if (isTemporary(error) && !isStatementGivenUp(error)) throw error;
      for (const [n, id] of page.entries()) {
        const first = processed + n;
        await change(first, [id]).catch((failure: unknown) => {
          if (isTemporary(failure)) throw failure;
          this.logger.error(
            `Run ${id} could not be changed`,
            failure instanceof Error ? failure.stack : failure,
          );
          return change(first, [id], FAILS);
        });
      }
    }
  }
}

/** Whether the same page may succeed later. */
function isTemporary(error: unknown): boolean {
  return error instanceof DomainError || isDatabaseUnavailable(error) || isRetryable(error);
}

function commandOf({ action, value, reason, keyId }: BulkOperation): RunCommand {
  const reporter = { sender: keyId };
  switch (action) {
    case 'cancel':
      return eventCommand(userCancel(reason ?? undefined), reporter);
    case 'retry':
      return eventCommand(MANUAL_RETRY, reporter);
    case 'priority':
      return { type: 'patch', keyName: null, priority: Number(value) };
    case 'labels': {
      const labels = checkedValue(action, value ?? undefined);
      return {
        type: 'label',
        keyName: null,
        labels: labels !== null && typeof labels === 'object' ? labels : {},
      };
    }
  }
}
