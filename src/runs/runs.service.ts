import { Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { InvalidRequest } from '../http/domain-error.js';
import type { JsonObject } from '../json/json-value.js';
import type { AddEventDto } from './dto/add-event.dto.js';
import type { ConstraintsInputDto } from './dto/constraints.dto.js';
import type { EventDeliveryDto } from './dto/event-delivery.dto.js';
import { toOpRunDto, type OpRunDto } from './dto/op-run.dto.js';
import { storedRetryPolicy, type RetryPolicyInputDto } from './dto/retry-policy.dto.js';
import { storedTimeouts, type TimeoutsDto } from './dto/timeouts.dto.js';
import type { UpdateRunDto } from './dto/update-run.dto.js';
import type { Reporter } from './run-machine/run-command.js';
import type { NewRun } from './run-machine/run.js';
import { MANUAL_RETRY, readEvent, USER_CANCEL, type RunEvent } from './run-machine/run-event.js';
import type { Idempotency } from './run-journal/key-book.js';
import type { Effect } from './run-journal/journal-member.js';
import { RunJournal, type ChangeOptions } from './run-journal/run-journal.js';
import { checkedState } from './run-list/run-filter.js';
import { RunNotFound } from './run.errors.js';
import { isRunId, RunReader } from './run.reader.js';
import { recordOfNewRun } from './run-record.js';

/** What a run is created from; what is left out takes the documented default. */
export interface RunRequest {
  readonly image: string;
  readonly priority?: number | undefined;
  readonly inputs?: JsonObject | undefined;
  /** Template of the outputs. */
  readonly outputs?: JsonObject | undefined;
  readonly constraints?: ConstraintsInputDto | undefined;
  readonly retry_policy?: RetryPolicyInputDto | undefined;
  readonly timeouts?: TimeoutsDto | undefined;
  readonly event_delivery?: EventDeliveryDto | null | undefined;
  readonly definition?: { readonly id: string; readonly version: string } | undefined;
}

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
  async create(request: RunRequest, idempotency?: Idempotency): Promise<AnsweredRun> {
    const fresh = newRun(request);
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
    const nextAttempt = { id: uuidv7(), jitter: Math.random() };
    return this.journal.change(id, { type: 'event', event, reporter, nextAttempt }, options);
  }
}

/** The run that an effect shows. @throws RunNotFound when the run of an earlier request is no more */
function viewed(effect: Effect): AnsweredRun {
  if (!effect.view) throw new RunNotFound('run' in effect ? effect.run.id : effect.replayOf);
  return { run: toOpRunDto(effect.view.run, effect.view.events), replayed: 'replayOf' in effect };
}

function checkedEvent(body: AddEventDto): RunEvent {
  const event = readEvent(body);
  if ('problems' in event) throw new InvalidRequest('Request validation failed', event.problems);
  return event;
}

function newRun(request: RunRequest): NewRun {
  const { constraints, event_delivery: delivery } = request;
  return {
    id: uuidv7(),
    attemptId: uuidv7(),
    image: request.image,
    priority: request.priority ?? 0,
    inputs: request.inputs ?? {},
    outputsTemplate: request.outputs ?? {},
    ramMb: constraints?.ram_mb ?? 0,
    vramMb: constraints?.vram_mb ?? 0,
    cpu: constraints?.cpu ?? 0,
    ...storedRetryPolicy(request.retry_policy),
    ...storedTimeouts(request.timeouts),
    eventDelivery: delivery
      ? {
          topic: delivery.topic,
          ...(delivery.attributes === undefined ? {} : { attributes: delivery.attributes }),
        }
      : null,
    definition: request.definition ?? null,
  };
}
