import { Injectable } from '@nestjs/common';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { AddEventDto } from './http/dto/event.dto.js';
import { toOpRunDto, type OpRunDto } from './http/dto/op-run.dto.js';
import type { UpdateRunDto } from './http/dto/run-requests.dto.js';
import { checkedEvent, eventCommand } from './events/event-command.js';
import { newRun, type RunRequest } from './storage/new-run.js';
import type { Reporter } from './machine/run-command.js';
import { MANUAL_RETRY, USER_CANCEL, type RunEvent } from './machine/run-event.js';
import type { Idempotency } from './journal/idempotency-ledger.js';
import type { Effect } from './journal/pending-command.js';
import { RunJournal, type ChangeOptions } from './journal/run-journal.js';
import { checkedState } from './list/run-filter.js';
import { RunNotFound } from './run.errors.js';
import { isRunId, RunReader } from './storage/run.reader.js';
import { recordOfNewRun } from './storage/run-record.js';

/** A run as a request left it. */
export interface AnsweredRun {
  readonly run: OpRunDto;
  /** True when an earlier request with the same key did what this one asks for. */
  readonly replayed: boolean;
}

/** The use cases of runs. Refusals are RunNotFound, RunRejected and IdempotencyMismatch. */
@Injectable()
export class RunsService {
  constructor(
    private readonly journal: RunJournal,
    private readonly reader: RunReader,
  ) {}

  /** Creates a run and answers it; a request that was sent before is answered with its run as it is now. */
  async create(
    request: RunRequest,
    trace: TraceContext | null = null,
    idempotency?: Idempotency,
  ): Promise<AnsweredRun> {
    const fresh = newRun(request, trace);
    const effect = await this.journal.create(fresh, idempotency);
    return 'replayOf' in effect
      ? viewed(effect)
      : { run: toOpRunDto(recordOfNewRun(effect.run, fresh), []), replayed: false };
  }

  /** What a creation is answered with that was carried out before, or null when it was not. @throws IdempotencyMismatch */
  async findReplay(idempotency: Idempotency): Promise<AnsweredRun | null> {
    const run = await this.reader.findReplay(idempotency);
    return run && { run, replayed: true };
  }

  /** An admin's direct mutation; it is written to the audit log and not to the timeline. */
  async patch(id: string, body: UpdateRunDto, keyName: string): Promise<OpRunDto> {
    const state = body.state === undefined ? undefined : checkedState(body.state);
    if (!isRunId(id)) throw new RunNotFound(id);
    const { priority, outputs } = body;
    const command = { type: 'patch', keyName, state, priority, outputs } as const;
    return viewed(await this.journal.change(id, command, { wantsView: true })).run;
  }

  /** Opens another attempt, whatever state the run is in. */
  async retry(id: string): Promise<OpRunDto> {
    return viewed(await this.#record(id, MANUAL_RETRY, {}, { wantsView: true })).run;
  }

  /** Cancels a run that is not locked. */
  async cancel(id: string): Promise<OpRunDto> {
    return viewed(await this.#record(id, USER_CANCEL, {}, { wantsView: true })).run;
  }

  /**
   * Puts a reported event on the timeline and carries out its effect, once for each idempotency key.
   * @returns whether an earlier request with the same key did so
   * @throws InvalidRequest when the event breaks a rule of its type
   */
  async addEvent(
    id: string,
    body: AddEventDto,
    reporter: Reporter,
    idempotency?: Idempotency,
  ): Promise<{ readonly replayed: boolean }> {
    const effect = await this.#record(id, checkedEvent(body), reporter, { idempotency });
    return { replayed: 'replayOf' in effect };
  }

  /** As `addEvent`, and answers the run. */
  async addEventAndRead(
    id: string,
    body: AddEventDto,
    reporter: Reporter,
    idempotency?: Idempotency,
  ): Promise<AnsweredRun> {
    return viewed(await this.#record(id, checkedEvent(body), reporter, { idempotency, wantsView: true }));
  }

  async #record(id: string, event: RunEvent, reporter: Reporter, options: ChangeOptions): Promise<Effect> {
    if (!isRunId(id)) throw new RunNotFound(id);
    return this.journal.change(id, eventCommand(event, reporter), options);
  }
}

/** The run that an effect shows. @throws RunNotFound when the run of an earlier request is no more */
export function viewed(effect: Effect): AnsweredRun {
  if (!effect.view) throw new RunNotFound('run' in effect ? effect.run.id : effect.replayOf);
  return { run: toOpRunDto(effect.view.run, effect.view.events), replayed: 'replayOf' in effect };
}
