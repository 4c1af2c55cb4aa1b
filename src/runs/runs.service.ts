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
import type { ChangeOptions, Effect } from './journal/pending-command.js';
import { RunJournal } from './journal/run-journal.js';
import { checkedState } from './list/run-filter.js';
import { RunNotFound } from './run.errors.js';
import { isRunId, RunReader } from './storage/run.reader.js';

/** A run after a request. */
export interface AnsweredRun {
  readonly run: OpRunDto;
  /** True when the request repeats an earlier one with the same idempotency key. */
  readonly replayed: boolean;
}

/** The use cases of runs. They throw RunNotFound, RunRejected and IdempotencyMismatch. */
@Injectable()
export class RunsService {
  constructor(
    private readonly journal: RunJournal,
    private readonly reader: RunReader,
  ) {}

  /** Creates a run; a repeated request returns its run as it is now. */
  async create(
    request: RunRequest,
    trace: TraceContext | null = null,
    idempotency?: Idempotency,
  ): Promise<AnsweredRun> {
    return viewed(await this.journal.create(newRun(request, trace), idempotency));
  }

  /** The run of an earlier request with this key, or null. @throws IdempotencyMismatch */
  async findReplay(idempotency: Idempotency): Promise<AnsweredRun | null> {
    const run = await this.reader.findReplay(idempotency);
    return run && { run, replayed: true };
  }

  /** An admin's direct change: it is written to the audit log and not to the timeline. */
  async patch(id: string, body: UpdateRunDto, keyName: string): Promise<OpRunDto> {
    const state = body.state === undefined ? undefined : checkedState(body.state);
    if (!isRunId(id)) throw new RunNotFound(id);
    const { priority, outputs } = body;
    const command = { type: 'patch', keyName, state, priority, outputs } as const;
    return viewed(await this.journal.change(id, command, { wantsView: true })).run;
  }

  /** Opens another attempt, from any state. */
  async retry(id: string): Promise<OpRunDto> {
    return viewed(await this.#record(id, MANUAL_RETRY, {}, { wantsView: true })).run;
  }

  /** Cancels a run that is not locked. */
  async cancel(id: string): Promise<OpRunDto> {
    return viewed(await this.#record(id, USER_CANCEL, {}, { wantsView: true })).run;
  }

  /**
   * Appends an event to the timeline and applies its effect, once for each idempotency key.
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

  /** As `addEvent`, and returns the run. */
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

/** The run of an effect. @throws RunNotFound when the run of an earlier request was removed */
export function viewed(effect: Effect): AnsweredRun {
  if (!effect.view) throw new RunNotFound('run' in effect ? effect.run.id : effect.replayOf);
  return { run: toOpRunDto(effect.view.run, effect.view.events), replayed: 'replayOf' in effect };
}
