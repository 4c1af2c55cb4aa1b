import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { stringifyJson } from '@longshore/common/json/json-text';
import { recordChange } from '../../auth/audit-log.js';
import type { Caller } from '../../auth/access.js';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import {
  IdempotencyLedger,
  type Idempotency,
  IdempotencyRepository,
} from '../idempotency/idempotency.repository.js';
import { newId } from '../machine/new-id.js';
import { RunListReader } from '../reading/run-list.reader.js';
import { stateOf } from '../reading/run-filter.js';
import type {
  BulkPreviewDto,
  CreateBulkOperationDto,
  StartedBulkOperationDto,
} from './bulk-operations.dto.js';
import { BULK_OPERATIONS } from './bulk-operations.job.js';
import { BulkOperationRepository, MAX_MATCHED, type BulkOperation } from './bulk-operations.repository.js';
import { checkedFilter, checkedValue, readFilterQuery } from './bulk-request.js';
import { DomainError, InvalidRequest, NotFound } from '../../common/errors/domain-error.js';

/** The filter matches another number of runs than the caller expects; nothing has changed. */
class UnexpectedNumberOfRuns extends DomainError {
  readonly kind = 'conflict';

  constructor(matched: number, expected: number) {
    super(`The filter matches ${matched} runs, not ${expected}`);
  }
}

/** Runs that a preview shows. */
const PREVIEWED = 10;

export interface StartedBulkOperation extends StartedBulkOperationDto {
  /** True when an earlier request with the same key has started it. */
  readonly replayed: boolean;
}

/** Starts, shows and stops bulk operations, which a scheduled job carries out. */
@Injectable()
export class BulkOperationsService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly operations: BulkOperationRepository,
    private readonly keys: IdempotencyRepository,
    private readonly lists: RunListReader,
    private readonly scheduler: JobScheduler,
  ) {}

  /** What an operation would change now. @throws InvalidRequest, UnexpectedNumberOfRuns */
  async preview({
    action,
    filter: given,
    all = false,
    value,
    expect,
  }: CreateBulkOperationDto): Promise<BulkPreviewDto> {
    const query = readFilterQuery(given);
    const filter = checkedFilter(query, all);
    checkedValue(action, value);
    const matched = await this.operations.count(filter);
    assertNumber(matched, expect);
    const { data } = await this.lists.list({ ...query, limit: PREVIEWED, include_events: false });
    return { matched, runs: data };
  }

  /**
   * Starts an operation on the runs that match now. A repeated request finds the earlier operation.
   * @throws InvalidRequest, UnexpectedNumberOfRuns, IdempotencyMismatch
   */
  async start(
    { action, filter: given, all = false, value, reason, expect }: CreateBulkOperationDto,
    idempotency: Idempotency | undefined,
    { keyId, name }: Caller,
  ): Promise<StartedBulkOperation> {
    const filter = checkedFilter(readFilterQuery(given), all);
    const checked = checkedValue(action, value);
    const id = newId();
    const operation = {
      id,
      action,
      filter: given,
      onlyIn: stateOf(filter) ?? null,
      value: checked === null ? null : stringifyJson(checked),
      reason: reason ?? null,
      keyId,
      keyName: name,
    };
    const earlier = await this.dataSource.transaction(async (manager) => {
      if (idempotency) {
        const registered = await this.keys.register(manager, [{ ...idempotency, runId: id }]);
        const replayOf = new IdempotencyLedger(registered).replayOf(idempotency);
        if (replayOf !== null) return replayOf;
      }
      const matched = await this.operations.insert(manager, operation, filter);
      assertNumber(matched, expect);
      const after = { action, filter: given, matched, value: checked, reason: operation.reason };
      await recordChange(manager, { name }, { action: 'bulk.start', subject: id, before: {}, after });
      return null;
    });
    if (earlier === null) this.scheduler.runWithin(BULK_OPERATIONS, 0);
    const { matched } = await this.get(earlier ?? id);
    return { id: earlier ?? id, matched, replayed: earlier !== null };
  }

  /** @throws NotFound */
  async get(id: string): Promise<BulkOperation> {
    const operation = await this.operations.find(id);
    if (!operation) throw new NotFound(`Bulk operation '${id}' not found`);
    return operation;
  }

  /** Ends an operation after the page in progress; one that has ended stays as it is. @throws NotFound */
  async stop(id: string, { name }: Caller): Promise<BulkOperation> {
    const operation = await this.get(id);
    const stopped = await this.dataSource.transaction(async (manager) => {
      const ended = await this.operations.stop(manager, operation.id);
      if (ended) {
        const { processed, matched } = ended;
        const after = { processed, matched };
        await recordChange(manager, { name }, { action: 'bulk.stop', subject: id, before: {}, after });
      }
      return ended;
    });
    return stopped ?? this.get(id);
  }
}

/** @throws InvalidRequest, UnexpectedNumberOfRuns */
function assertNumber(matched: number, expected: number | undefined): void {
  if (matched > MAX_MATCHED)
    throw new InvalidRequest(
      `The filter matches more than ${MAX_MATCHED} runs: narrow it, for example by created[gte] and created[lt]`,
    );
  if (expected !== undefined && matched !== expected) throw new UnexpectedNumberOfRuns(matched, expected);
}
