import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { stringifyJson } from '@longshore/common/json/json-text';
import { recordChange } from '../../auth/audit-log.js';
import { Settings } from '../../config/settings.js';
import { completeBulkEntries, insertBulkEntry } from '../audit/audit.repository.js';
import type { Caller } from '../../auth/access.js';
import { JobScheduler } from '../../common/scheduling/job-scheduler.js';
import {
  IdempotencyLedger,
  type Idempotency,
  IdempotencyRepository,
} from '../idempotency/idempotency.repository.js';
import { newId } from '../machine/new-id.js';
import { RunListReader } from '../reading/run-list.reader.js';
import { RUN_STATES } from '../machine/run-state.js';
import type {
  BulkPreviewDto,
  CreateBulkOperationDto,
  StartedBulkOperationDto,
} from './bulk-operations.dto.js';
import { BULK_OPERATIONS } from './bulk-operations.job.js';
import { BulkOperationRepository, MAX_MATCHED, type BulkOperation } from './bulk-operations.repository.js';
import { checkedFilter, checkedValue, readFilterQuery } from './bulk-request.js';
import { DomainError, InvalidRequest, NotFound, OverLimit } from '../../common/errors/domain-error.js';

/** The filter matches another number of runs than the caller expects; nothing has changed. */
class UnexpectedNumberOfRuns extends DomainError {
  readonly kind = 'conflict';

  constructor(matched: number, expected: number) {
    super(`The filter matches ${matched} runs, not ${expected}`);
  }
}

/** How soon a refused caller may try again. */
const RETRY_AFTER_S = 5;

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
    private readonly settings: Settings,
  ) {}

  /** What an operation would change now. @throws InvalidRequest, UnexpectedNumberOfRuns */
  async preview(
    { action, filter: given, all = false, value, expect }: CreateBulkOperationDto,
    caller: Caller,
  ): Promise<BulkPreviewDto> {
    const query = readFilterQuery(given);
    const filter = checkedFilter(action, query, caller, all);
    checkedValue(action, value);
    const counts = await this.operations.count(filter);
    const matched = [...counts.values()].reduce((sum, count) => sum + count, 0);
    assertNumber(matched, expect);
    const page = { ...query, limit: PREVIEWED, include_events: false };
    const { data } = await this.lists.list(page, filter);
    const by_state = Object.fromEntries(RUN_STATES.map((state) => [state, counts.get(state) ?? 0]));
    return { matched, by_state, runs: data };
  }

  /**
   * Starts an operation on the runs that match now. A repeated request finds the earlier operation.
   * @throws InvalidRequest, UnexpectedNumberOfRuns, IdempotencyMismatch, OverLimit
   */
  async start(
    { action, filter: given, all = false, value, reason, expect }: CreateBulkOperationDto,
    idempotency: Idempotency | undefined,
    caller: Caller,
  ): Promise<StartedBulkOperation> {
    const filter = checkedFilter(action, readFilterQuery(given), caller, all);
    const checked = checkedValue(action, value);
    const id = newId();
    const operation = {
      id,
      action,
      filter: given,
      value: checked === null ? null : stringifyJson(checked),
      reason: reason ?? null,
      keyId: caller.keyId,
      keyName: caller.name,
      isAdmin: caller.scopes.has('admin'),
    };
    const earlier = await this.dataSource.transaction(async (manager) => {
      if (idempotency) {
        const registered = await this.keys.register(manager, [{ ...idempotency, runId: id }]);
        const replayOf = new IdempotencyLedger(registered).replayOf(idempotency);
        if (replayOf !== null) return replayOf;
      }
      // To find and store the runs takes time: a key that is at its limit is refused before.
      await this.#assertRoom(manager, operation, 0);
      const matched = await this.operations.insert(manager, operation, filter);
      assertNumber(matched, expect);
      if (matched > 0) {
        await this.operations.lockKey(manager, caller.keyId);
        await this.#assertRoom(manager, operation, matched);
      }
      await insertBulkEntry(manager, id);
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

  /** Ends an operation, which changes no run any more; one that has ended stays as it is. @throws NotFound */
  async stop(id: string, { name }: Caller): Promise<BulkOperation> {
    const operation = await this.get(id);
    const stopped = await this.dataSource.transaction(async (manager) => {
      const ended = await this.operations.stop(manager, operation.id);
      if (ended) {
        const { processed, matched } = ended;
        const after = { processed, matched };
        await completeBulkEntries(manager, [ended.id]);
        await recordChange(manager, { name }, { action: 'bulk.stop', subject: id, before: {}, after });
      }
      return ended;
    });
    return stopped ?? this.get(id);
  }

  /** @param added runs of the operation, if it is among the running ones; 0: it is to come @throws OverLimit */
  async #assertRoom(
    manager: EntityManager,
    { keyId, keyName }: Pick<BulkOperation, 'keyId' | 'keyName'>,
    added: number,
  ): Promise<void> {
    const { maxBulkOperationsPerKey: most, maxBulkRunsPerKey: mostRuns } = this.settings;
    const { operations, runs } = await this.operations.underWay(manager, keyId);
    const others = added > 0 ? operations - 1 : operations;
    if (others >= most) {
      const detail = `Too many bulk operations of the API key '${keyName}' are running: at most ${most}`;
      throw new OverLimit(detail, 'SERVICE_MAX_BULK_OPERATIONS_PER_KEY', RETRY_AFTER_S);
    }
    if (others > 0 && (added > 0 ? runs > mostRuns : runs >= mostRuns)) {
      const detail = `Too many runs in the running bulk operations of the API key '${keyName}': at most ${mostRuns}`;
      throw new OverLimit(detail, 'SERVICE_MAX_BULK_RUNS_PER_KEY', RETRY_AFTER_S);
    }
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
