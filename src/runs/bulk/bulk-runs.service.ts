import { Injectable } from '@nestjs/common';
import type { JsonValue } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { isBound, type Caller } from '../../auth/access.js';
import { DomainError, InvalidRequest } from '../../common/errors/domain-error.js';
import { toItemError, type ItemError } from '../../common/http/errors/error-response.js';
import { readItem } from '../../common/http/validation/bulk-items.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import {
  checkedEvent,
  eventCommand,
  readAnswer,
  assertMayReport,
  RunsService,
  type RunOrigin,
} from '../runs.service.js';
import { CreateRunDto } from '../dto/run-requests.dto.js';
import type { BulkKeys } from '../http/idempotency.js';
import type { Effect } from '../journal/command.js';
import { RunJournal } from '../journal/run-journal.js';
import type { RunEvent } from '../machine/run-event.js';
import { RunReader } from '../reading/run.reader.js';
import { LONGEST_WORKER_ID } from '../http/request-headers.js';
import {
  ReportedEventDto,
  type ChangedRunDto,
  type CreatedRunDto,
  type CreatedRunIdDto,
  type PreviewedRunDto,
} from './bulk-runs.dto.js';

/** What the items of a bulk creation share. */
export interface BulkCreation {
  readonly keys: BulkKeys;
  /** Responds with ids instead of runs. */
  readonly minimal: boolean;
  readonly trace: TraceContext | null;
  readonly caller?: Caller | undefined;
}

/**
 * Many commands in one request, each with the result that it would have alone. Every method throws the first item's error
 * when all items failed because the service is unavailable or the API key is over a limit.
 */
@Injectable()
export class BulkRunsService {
  constructor(
    private readonly journal: RunJournal,
    private readonly reader: RunReader,
    private readonly runs: RunsService,
  ) {}

  create(
    items: readonly JsonValue[],
    { keys, minimal, trace, caller }: BulkCreation,
  ): Promise<(CreatedRunDto | CreatedRunIdDto | ItemError)[]> {
    return settleItems(items, async (item, index) => {
      const fresh = this.runs.newRun(readItem(CreateRunDto, item), { trace, caller });
      if (fresh.hasFiles) await this.runs.checkFiles(fresh, caller);
      const effect = await this.journal.create(fresh, { idempotency: keys(item, index), caller });
      if (minimal && 'run' in effect) return { status: 201, id: effect.run.id };
      const { run, replayed } = await readAnswer(effect, this.reader);
      return { status: 201, ...(minimal ? { id: run.id } : { run }), ...(replayed && { replayed }) };
    });
  }

  /** What {@link create} would create. */
  preview(items: readonly JsonValue[], origin: RunOrigin): Promise<(PreviewedRunDto | ItemError)[]> {
    return settleItems(items, async (item) => ({
      status: 200,
      run: await this.runs.preview(readItem(CreateRunDto, item), origin),
    }));
  }

  /** Records the same event of several runs. */
  record(
    event: RunEvent,
    ids: readonly string[],
    keys: BulkKeys,
    caller: Caller,
  ): Promise<(ChangedRunDto | ItemError)[]> {
    const { effect } = event;
    const reason = effect.kind === 'CANCELLED' ? effect.reason : undefined;
    const command = eventCommand(event, { sender: caller.keyId });
    return settleItems(ids, async (id, index) => {
      const idempotency = keys(reason === undefined ? id : { id, reason }, index);
      return recorded(await this.journal.change(id, command, { idempotency, caller }));
    });
  }

  /**
   * Records events that a worker reports. Those of one run keep their order: after one that could not be recorded, the
   * later ones are refused, too. A rejected event does not stop the later ones.
   * @throws InvalidRequest for an invalid worker id
   */
  async report(
    workerId: string,
    items: readonly JsonValue[],
    keys: BulkKeys,
    caller: Caller,
  ): Promise<(ChangedRunDto | ItemError)[]> {
    if (workerId.length > LONGEST_WORKER_ID) {
      throw new InvalidRequest(VALIDATION_FAILED, ['worker_id must be a worker id']);
    }
    const orders = new Map<string, { isBroken: boolean }>();
    return settleItems(items, async (item, index) => {
      const reported = readItem(ReportedEventDto, item);
      const { run_id: runId, attempt } = reported;
      const reporter = { workerId, attempt, sender: caller.keyId };
      if (isBound(caller) && attempt === undefined) {
        throw new InvalidRequest(VALIDATION_FAILED, [
          'attempt is required with an API key that is bound to workers',
        ]);
      }
      assertMayReport(caller, reported.type, reporter);
      const event = checkedEvent(reported);
      const order = orders.get(runId) ?? { isBroken: false };
      orders.set(runId, order);
      try {
        const command = eventCommand(event, reporter);
        const effect = await this.journal.change(runId, command, {
          idempotency: keys(item, index),
          caller,
          hasPrecedingFailed: () => order.isBroken,
        });
        return recorded(effect);
      } catch (error) {
        order.isBroken ||= mayBeSentAgain(error);
        throw error;
      }
    });
  }
}

/**
 * Executes the items and responds to each at its index. `execute` runs for every item, up to its first `await`, before
 * anything else can happen: the commands enter the journal in order and, if they fit, in one commit.
 */
export async function settleItems<I, R extends { readonly status: number }>(
  items: readonly I[],
  execute: (item: I, index: number) => Promise<R>,
): Promise<(R | ItemError)[]> {
  const settled = await Promise.allSettled(items.map(execute));
  const failures: unknown[] = [];
  const results = settled.map((outcome) => {
    if (outcome.status === 'fulfilled') return outcome.value;
    failures.push(outcome.reason);
    return toItemError(outcome.reason);
  });
  if (results.every(({ status }) => status === 503 || status === 429)) throw failures[0];
  return results;
}

function mayBeSentAgain(error: unknown): boolean {
  return !(error instanceof DomainError) || error.kind === 'unavailable' || error.kind === 'rate-limited';
}

function recorded(effect: Effect): ChangedRunDto {
  return 'replayOf' in effect ? { status: 204, replayed: true } : { status: 204 };
}
