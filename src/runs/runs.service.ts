import { Inject, Injectable } from '@nestjs/common';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { lazyObject, stringifyJson } from '@longshore/common/json/json-text';
import type { RunRequestCopy } from '../database/entities/run.entity.js';
import type { Caller } from '../auth/access.js';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { Settings } from '../config/settings.js';
import { toTimelineEventDto, type AddEventDto } from './dto/event.dto.js';
import {
  readStartTime,
  toStoredExecutionOptions,
  type RequestedExecutionOptions,
} from './dto/execution-options.dto.js';
import { toOpRunDto, type OpRunDto, type RunPreviewDto } from './dto/op-run.dto.js';
import type { UpdateLabelsDto, UpdateRunDto } from './dto/run-requests.dto.js';
import { createRun, type NewRun, type RunRecord } from './machine/run.js';
import type { Reporter, RunCommand } from './machine/run-command.js';
import {
  MANUAL_RETRY,
  RETRY_WITH_DEPENDENTS,
  readEvent,
  userCancel,
  type ReportedEvent,
  type RunEvent,
} from './machine/run-event.js';
import type { Idempotency } from './idempotency/idempotency.repository.js';
import type { CommandOptions, Effect } from './journal/command.js';
import { RunJournal } from './journal/run-journal.js';
import { checkedState } from './reading/run-filter.js';
import { RunReader } from './reading/run.reader.js';
import { RunRejected, SecretsNotConfigured } from './run.errors.js';
import { MissingScope } from '../auth/auth.errors.js';
import { eventType } from './machine/event-types.js';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { RequestedConstraints } from './dto/constraints.dto.js';
import {
  toStoredPolicies,
  type EventDeliveryDto,
  type TimeoutsDto,
} from './dto/timeouts-and-delivery.dto.js';
import type { RequestedRetryPolicy } from './dto/retry-policy.dto.js';
import { ConcurrencySlots } from './queue/concurrency-slots.js';
import { newId } from './machine/new-id.js';
import { readDependencies, type DependencyDto } from './dto/dependency.dto.js';
import { hasSources, sourceProblems } from './options/output-sources.js';
import { RunFiles } from './files/run-files.js';
import { fileIdsOf, requestedFilesProblems, sourcesOf, usesFiles } from './files/requested-files.js';
import { bindOptions, secretNamesOf } from './options/stored-options.js';
import { requirementIdOf, requirementsOf } from './requirements.js';

/** What a request to create a run says beside the run. */
export interface RunCreation extends Omit<CommandOptions, 'caller'> {
  readonly trace?: TraceContext | null;
  /** Who creates it; undefined: the service itself. */
  readonly caller?: Caller | undefined;
}

export interface AnsweredRun {
  readonly run: OpRunDto;
  /** True when the request repeats an earlier one with the same idempotency key. */
  readonly replayed: boolean;
}

/**
 * The use cases of runs. They throw RunNotFound, RunRejected and IdempotencyMismatch. `sender` is the `keyId` of the caller.
 */
@Injectable()
export class RunsService {
  #countAbleWorkers: ((run: RunRecord) => Promise<number>) | undefined;

  constructor(
    private readonly journal: RunJournal,
    private readonly reader: RunReader,
    private readonly slots: ConcurrencySlots,
    private readonly files: RunFiles,
    @Inject(Settings) private readonly settings: Pick<Settings, 'secretsKeys' | 'defaultTopic'>,
  ) {}

  /** Creates a run; a repeated request returns its run as it is now. @throws SecretsNotConfigured */
  async create(request: RunRequest, options: RunCreation = {}): Promise<AnsweredRun> {
    const { idempotency, caller } = options;
    const run = this.newRun(request, options);
    if (run.hasFiles) await this.checkFiles(run, caller);
    return readAnswer(await this.journal.create(run, { idempotency, caller }), this.reader);
  }

  /**
   * The run that a request asks for, with new ids; one with files is to be passed to {@link checkFiles}.
   * @throws SecretsNotConfigured, FilesNotConfigured, InvalidRequest
   */
  newRun(request: RunRequest, origin: RunOrigin): NewRun {
    const { depends_on: asked = [], inputs = {} } = request;
    const problems: string[] = asked.length === 0 ? [] : sourceProblems(inputs, readDependencies(asked));
    const hasFiles = usesFiles(request);
    if (hasFiles) {
      problems.push(...requestedFilesProblems(request));
      this.files.assertConfigured();
    }
    if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
    if (this.settings.secretsKeys.length === 0 && secretNamesOf(request).length > 0)
      throw new SecretsNotConfigured();
    return newRun(request, origin, this.settings.defaultTopic, hasFiles);
  }

  /** Refuses a run that is to get files which are not there, or not for the caller. @throws InvalidRequest */
  async checkFiles(run: NewRun, caller: Caller | undefined): Promise<void> {
    const problems = await this.files.service.problemsOf(run, caller);
    if (problems.length > 0) throw new InvalidRequest(VALIDATION_FAILED, problems);
  }

  /** The run that a request would create now. Nothing is stored. @throws SecretsNotConfigured */
  async preview(request: RunRequest, origin: RunOrigin): Promise<RunPreviewDto> {
    const fresh = this.newRun(request, origin);
    if (fresh.hasFiles) await this.checkFiles(fresh, origin.caller);
    const run = createRun(fresh, new Date());
    return { ...toOpRunDto(run, []), able_workers: await this.countAbleWorkers(run) };
  }

  /** How many workers that take runs could execute the run when idle. */
  async countAbleWorkers(run: RunRecord): Promise<number> {
    return (await this.#countAbleWorkers?.(run)) ?? 0;
  }

  /** Sets what counts for {@link countAbleWorkers}: claims know it. */
  countAbleWorkersBy(count: (run: RunRecord) => Promise<number>): void {
    this.#countAbleWorkers = count;
  }

  /** The run of an earlier request with this key, or null. @throws IdempotencyMismatch */
  async findReplay(idempotency: Idempotency): Promise<AnsweredRun | null> {
    const run = await this.reader.findReplay(idempotency);
    return run && { run, replayed: true };
  }

  /** An admin's direct change: it is written to the audit log and not to the timeline. */
  async patch(id: string, body: UpdateRunDto, caller: Caller): Promise<OpRunDto> {
    const state = body.state === undefined ? undefined : checkedState(body.state);
    const { priority, outputs } = body;
    return this.#change(id, { type: 'patch', keyName: caller.name, state, priority, outputs }, caller);
  }

  /** Changes the name and labels, in any state: it is written to the audit log and not to the timeline. */
  label(id: string, { labels, name }: UpdateLabelsDto, caller: Caller): Promise<OpRunDto> {
    return this.#change(id, { type: 'label', keyName: caller.name, labels, name }, caller);
  }

  /**
   * Opens another attempt, from any state. @param reopens whether runs are opened again, if it completes, that its end has cancelled
   */
  retry(id: string, caller?: Caller, reopens = false): Promise<OpRunDto> {
    const event = reopens ? RETRY_WITH_DEPENDENTS : MANUAL_RETRY;
    return this.#change(id, eventCommand(event, { sender: caller?.keyId }), caller);
  }

  /** @param reason kept with the run */
  cancel(id: string, caller?: Caller, reason?: string): Promise<OpRunDto> {
    return this.#change(id, eventCommand(userCancel(reason), { sender: caller?.keyId }), caller);
  }

  /**
   * Cancels the run, unless it has ended, and has its program killed.
   * @throws RunRejected for a run that has ended and whose program no worker is ending
   */
  async kill(id: string, caller: Caller, reason?: string): Promise<OpRunDto> {
    try {
      await this.cancel(id, caller, reason);
    } catch (error) {
      const hasEnded = error instanceof RunRejected && error.rejection.reason === 'locked';
      if (!hasEnded || !(await this.slots.kill(id, caller))) throw error;
      return this.reader.getRun(id);
    }
    await this.slots.kill(id, caller);
    return this.reader.getRun(id);
  }

  /** Appends an event and applies its effect, once for each idempotency key. @throws InvalidRequest */
  async addEvent(
    id: string,
    body: AddEventDto,
    reporter: Reporter,
    options: CommandOptions = {},
  ): Promise<{ readonly replayed: boolean }> {
    const command = eventCommand(checkedEvent(body), reporter);
    const effect = await this.journal.change(id, command, options);
    return { replayed: 'replayOf' in effect };
  }

  /** As `addEvent`, and returns the run. */
  async addEventAndRead(
    id: string,
    body: AddEventDto,
    reporter: Reporter,
    options: CommandOptions = {},
  ): Promise<AnsweredRun> {
    const command = eventCommand(checkedEvent(body), reporter);
    return readAnswer(await this.journal.change(id, command, { ...options, wantsView: true }), this.reader);
  }

  async #change(id: string, command: RunCommand, caller: Caller | undefined): Promise<OpRunDto> {
    const effect = await this.journal.change(id, command, { caller, wantsView: true });
    return (await readAnswer(effect, this.reader)).run;
  }
}

/**
 * The run of an effect; without a view, as it is now.
 * @throws RunNotFound when the run of an earlier request was removed
 */
export async function readAnswer(effect: Effect, reader: Pick<RunReader, 'getRun'>): Promise<AnsweredRun> {
  const { view } = effect;
  const replayed = 'replayOf' in effect;
  if (view) return { run: toOpRunDto(view.run, view.events.map(toTimelineEventDto)), replayed };
  return { run: await reader.getRun(replayed ? effect.replayOf : effect.run.id), replayed };
}

/** The event as the state machine reads it. @throws InvalidRequest when it breaks a rule of its type */
export function checkedEvent(reported: ReportedEvent): RunEvent {
  const event = readEvent(reported);
  if ('problems' in event) throw new InvalidRequest(VALIDATION_FAILED, event.problems);
  return event;
}

/** The command that puts an event on a run's timeline and carries out its effect. */
export function eventCommand(event: RunEvent, reporter: Reporter): RunCommand {
  return { type: 'event', event: { ...event, sender: reporter.sender }, reporter };
}

/**
 * Refuses an event that the caller's scopes do not permit. A worker may also report events of clients, as the worker and attempt
 * that hold the run.
 * @throws MissingScope
 */
export function assertMayReport({ scopes }: Caller, type: string, { workerId, attempt }: Reporter): void {
  const scope = eventType(type)?.scope;
  if (scope === undefined || scopes.has(scope) || scopes.has('admin')) return;
  // The state machine checks that the given worker holds the run in the given attempt.
  if (scope === 'worker' || workerId === undefined || attempt === undefined) throw new MissingScope(scope);
}

/** A request to create a run; absent fields take the documented defaults. */
export interface RunRequest extends RequestedExecutionOptions {
  /** A new one unless given. */
  readonly id?: string | undefined;
  readonly image: string;
  readonly priority?: number | undefined;
  readonly inputs?: JsonObject | undefined;
  readonly outputs?: JsonObject | undefined;
  readonly constraints?: RequestedConstraints | undefined;
  readonly retry_policy?: RequestedRetryPolicy | undefined;
  readonly timeouts?: TimeoutsDto | undefined;
  readonly start_at?: string | undefined;
  readonly name?: string | undefined;
  readonly event_delivery?: EventDeliveryDto | null | undefined;
  readonly definition?: { readonly id: string; readonly version: string } | undefined;
  readonly rerunOf?: string | undefined;
  /** Whether references in its options have been replaced. */
  readonly isBound?: boolean;
  /** What makes it, and for which of its times. */
  readonly schedule?: { readonly id: string; readonly time: string } | undefined;
  /** The group that it is a member of. */
  readonly member?: Member | undefined;
  /** Runs and groups that must end first. */
  readonly depends_on?: readonly DependencyDto[] | undefined;
  /** Kept for reruns where the run does not tell what was asked for. */
  readonly copy?: RunRequestCopy | undefined;
}

/** What a run is in its group. */
export interface Member {
  readonly groupId: string;
  readonly ref: string | null;
  readonly array: { readonly index: number; readonly size: number } | null;
}

/** Who asks for a run, and the trace that it belongs to. */
export type RunOrigin = Pick<RunCreation, 'trace' | 'caller'>;

/** The run that a request asks for, with new ids. @param defaultTopic of a request that names none */
export function newRun(
  request: RunRequest,
  { trace, caller }: RunOrigin,
  defaultTopic?: string,
  hasFiles = usesFiles(request),
): NewRun {
  const { event_delivery: delivery, definition, schedule, member, start_at: startAt } = request;
  const dependsOn = readDependencies(request.depends_on);
  const id = request.id ?? newId();
  // The values of inputs, which those of a definition may have, are not looked at again.
  const isBound = definition !== undefined || request.isBound === true;
  const bound = isBound ? request : bindOptions(request, { id, name: request.name });
  const stored = toStoredPolicies(request);
  const options = toStoredExecutionOptions(bound);
  const { cpu, vramMb, extraConstraints } = stored;
  // The spreads come last: V8 adds members to a copy slowly.
  return {
    id,
    attemptId: newId(),
    image: request.image,
    priority: request.priority ?? 0,
    inputs: request.inputs ?? {},
    outputsTemplate: request.outputs ?? {},
    requirementId: requirementIdOf(requirementsOf({ cpu, vramMb, extraConstraints, ...options })),
    startAt: startAt === undefined ? null : readStartTime(startAt),
    name: request.name ?? null,
    topic: delivery?.topic ?? defaultTopic ?? null,
    attributes: delivery?.attributes ?? null,
    definitionId: definition?.id ?? null,
    definitionVersion: definition?.version ?? null,
    traceparent: trace?.traceparent ?? null,
    tracestate: trace?.tracestate ?? null,
    rerunOf: request.rerunOf ?? null,
    scheduleId: schedule?.id ?? null,
    scheduleTime: schedule?.time ?? null,
    groupId: member?.groupId ?? null,
    groupRef: member?.ref ?? null,
    arrayIndex: member?.array?.index ?? null,
    arraySize: member?.array?.size ?? null,
    hasFiles: hasFiles || null,
    hasSources: dependsOn.length > 0 && hasSources(request.inputs) ? true : null,
    ...(dependsOn.length > 0 && { dependsOn }),
    ...(hasFiles && { files: fileIdsOf(sourcesOf({ artifacts: bound.artifacts, inputs: request.inputs })) }),
    request: request.copy ?? copyOf(request, bound),
    createdBy: caller?.keyId ?? null,
    createdByName: caller?.name ?? null,
    ...stored,
    ...options,
  };
}

/** The fields of a request in which references to the id of the run were replaced, if any: another run has another id. */
function copyOf(request: RunRequest, bound: RunRequest): RunRequestCopy | null {
  if (bound === request) return null;
  const replaced = Object.entries(request).filter(([field, value]) => {
    const used: unknown = Reflect.get(bound, field);
    return used !== value && stringifyJson(used) !== stringifyJson(value);
  });
  return replaced.length === 0 ? null : { body: lazyObject(stringifyJson(Object.fromEntries(replaced))) };
}
