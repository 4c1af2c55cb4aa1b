import { Injectable } from '@nestjs/common';
import { readItem } from '../../common/http/validation/bulk-items.js';
import { InvalidRequest } from '../../common/http/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';
import type { JsonValue } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { CreateRunDto } from '../http/dto/run-requests.dto.js';
import { toOpRunDto } from '../http/dto/op-run.dto.js';
import { checkedEvent, eventCommand } from '../events/event-command.js';
import { newRun } from '../storage/new-run.js';
import type { RunEvent } from '../machine/run-event.js';
import type { Effect } from '../journal/pending-command.js';
import { RunJournal } from '../journal/run-journal.js';
import type { NewRun } from '../machine/run.js';
import { recordOfNewRun } from '../storage/run-record.js';
import { RunNotFound } from '../run.errors.js';
import { isRunId } from '../storage/run.reader.js';
import { LONGEST_WORKER_ID } from '../storage/reporter.js';
import { viewed } from '../runs.service.js';
import type { BulkKeys } from './bulk-keys.js';
import { carryOut } from './carry-out.js';
import type { ChangedRunDto, ChangeRunResult } from './change-runs.dto.js';
import type { CreatedRunDto, CreatedRunIdDto, CreateRunResult } from './create-runs.dto.js';
import { RunOrder } from './run-order.js';
import { ReportedEventDto, type RecordedEventDto, type ReportEventResult } from './report-events.dto.js';

/** What the items of a bulk creation share. */
export interface BulkCreation {
  readonly keys: BulkKeys;
  /** Answers ids in the place of runs. */
  readonly minimal: boolean;
  /** Where in a trace the runs belong. */
  readonly trace: TraceContext | null;
}

/** Creations and events of many runs at once: each as if it came alone, together at far less than its cost. */
@Injectable()
export class BulkRunsService {
  constructor(private readonly journal: RunJournal) {}

  /**
   * Creates runs; one answer each, in their order.
   * @throws the first item's error when all of them failed because the service cannot work now
   */
  create(items: readonly JsonValue[], { keys, minimal, trace }: BulkCreation): Promise<CreateRunResult[]> {
    return carryOut(items, (item, place) => {
      const fresh = newRun(readItem(CreateRunDto, item), trace);
      return {
        effect: this.journal.create(fresh, keys.of(item, place)),
        answer: (effect) => (minimal ? createdId(effect) : created(effect, fresh)),
      };
    });
  }

  /**
   * Records one event on runs, as if each were asked for alone; one answer each, in their order.
   * @throws the first item's error when all of them failed because the service cannot work now
   */
  record(event: RunEvent, ids: readonly string[], keys: BulkKeys): Promise<ChangeRunResult[]> {
    return carryOut(ids, (id, place) => {
      if (!isRunId(id)) throw new RunNotFound(id);
      const effect = this.journal.change(id, eventCommand(event, {}), { idempotency: keys.of(id, place) });
      return { effect, answer: recorded };
    });
  }

  /**
   * Records events that a worker reports; one answer each, in their order, which is also that of the timelines.
   * @throws InvalidRequest when the worker's id is none, and the first item's error when all of them failed because the
   * service cannot work now
   */
  async report(workerId: string, items: readonly JsonValue[], keys: BulkKeys): Promise<ReportEventResult[]> {
    if (workerId.length > LONGEST_WORKER_ID) {
      throw new InvalidRequest(VALIDATION_FAILED, ['worker_id must be a worker id']);
    }
    const order = new RunOrder();
    return carryOut(items, (item, place) => {
      const reported = readItem(ReportedEventDto, item);
      const { run_id: runId, attempt } = reported;
      const event = checkedEvent(reported);
      if (!isRunId(runId)) throw new RunNotFound(runId);
      const command = eventCommand(event, { workerId, attempt });
      const isHeldBack = order.next(runId);
      const idempotency = keys.of(item, place);
      const effect = this.journal.change(runId, command, { idempotency, isHeldBack });
      order.add(runId, effect);
      return { effect, answer: recorded };
    });
  }
}

function created(effect: Effect, fresh: NewRun): CreatedRunDto {
  if ('replayOf' in effect) return { status: 201, run: viewed(effect).run, replayed: true };
  return { status: 201, run: toOpRunDto(recordOfNewRun(effect.run, fresh), []) };
}

function createdId(effect: Effect): CreatedRunIdDto {
  if ('replayOf' in effect) return { status: 201, id: viewed(effect).run.id, replayed: true };
  return { status: 201, id: effect.run.id };
}

function recorded(effect: Effect): RecordedEventDto & ChangedRunDto {
  return 'replayOf' in effect ? { status: 204, replayed: true } : { status: 204 };
}
