import { DomainError } from '../../common/errors/domain-error.js';
import type { FeedAppend } from '../../feed/feed.repository.js';
import type { AuditRecord } from '../audit/audit.repository.js';
import { StateCountDelta } from '../counts/run-counts.repository.js';
import type { CommandOutcome } from '../group-commit/group-commit-queue.js';
import type { IdempotencyLedger } from '../idempotency/idempotency.repository.js';
import { decide } from '../machine/decide.js';
import { serviceCancel } from '../machine/run-event.js';
import { isRejected, type Decision, type Policy, type RunCommand } from '../machine/run-command.js';
import { isInExecution, type RunState } from '../machine/run-state.js';
import {
  CHANGING_FIELDS,
  createRun,
  HELD,
  type ChangingField,
  type EndedAttempt,
  type FoundRun,
  type NewRun,
  type Run,
  type CreatedRun,
  type TimelineEntry,
} from '../machine/run.js';
import { isClaimable, timerOf } from '../machine/timers.js';
import { SLOT_MS, type ConcurrencySlot } from '../queue/concurrency-keys.js';
import type { QueueChange } from '../queue/queue.repository.js';
import { PrecedingEventFailed, RunInOtherState, RunNotFound, RunRejected } from '../run.errors.js';
import { shapeOf } from '../scheduling-strategy.js';
import { arePlain, type ExecutionChange } from '../storage/run.repository.js';
import type { OpenRuns } from '../storage/open-runs.js';
import type { RunTimer } from '../storage/run-timers.js';
import { KeyLimits } from './key-limits.js';
import {
  REFUSED,
  type Batch,
  type BatchChange,
  type BatchDone,
  type BatchOutcome,
  type BatchRefusal,
  type PendingCommand,
  type Result,
} from './command.js';

/** A decided command. */
export interface Change extends Decision {
  readonly command: RunCommand;
  readonly before: Run;
}

/** What a group reads before it decides. */
export interface GroupStart {
  readonly keys: IdempotencyLedger;
  /** The existing runs among those that the commands name. */
  readonly found: readonly FoundRun[];
  /** The records of batches that are to be carried out. */
  readonly due: ReadonlySet<object>;
  /** The open runs of the keys whose limits decide about new runs. */
  readonly open: OpenRuns;
  /** The time of the group, taken after they were read. */
  readonly now: Date;
}

/** The rows that a group writes, without those of its claims. */
export interface Changes {
  readonly now: Date;
  /** In the order of the commands, as they are after the group. */
  readonly created: readonly CreatedRun[];
  readonly decided: readonly Change[];
  /** Runs whose rows are updated, as they are before and after the group; `after` also has new runs that it changes. */
  readonly before: ReadonlyMap<string, FoundRun>;
  readonly after: ReadonlyMap<string, Run>;
  /** Fields in which at least one of them differs from its row. */
  readonly changedFields: ReadonlySet<ChangingField>;
  readonly entries: readonly TimelineEntry[];
  readonly endedAttempts: readonly EndedAttempt[];
  readonly auditRecords: readonly AuditRecord[];
  /** What the batches of the group did, those that were carried out. */
  readonly batches: readonly (BatchDone & Pick<Batch, 'ledger'>)[];
  /** Runs whose name or labels a command sets. */
  readonly labelled: readonly Run[];
  readonly queue: QueueChange;
  readonly executions: ExecutionChange;
  /** Timers to write; one whose `dueAt` is null is removed. */
  readonly timers: readonly RunTimer[];
  /** Every timeline entry of a run with a topic, in the order of the timeline. */
  readonly feedEntries: readonly FeedAppend[];
  /** By how much the group changes the number of runs in each state; its claims are added later. */
  readonly counts: StateCountDelta;
  /** Ids of workers that lose a run and so have free capacity. */
  readonly freedWorkers: readonly string[];
  /** Those of them that lose a run by anything but their own report of its end. */
  readonly deprivedWorkers: readonly string[];
}

/**
 * Decides the commands of a group in order, each on the result of those before it. A command that is refused changes
 * nothing. Depends on its arguments alone.
 * @returns what to write, and an outcome for each command; claims are refused until they are served
 */
export function decideGroup(
  commands: readonly PendingCommand[],
  { keys, found, due, open, now }: GroupStart,
  policy: Policy,
): { readonly changes: Changes; readonly outcomes: CommandOutcome<Result>[] } {
  const created = new Map<string, CreatedRun>();
  const decided: Change[] = [];
  const before = new Map([...open.oldest, ...found].map((run) => [run.id, run]));
  const after = new Map<string, Run>();
  const limits = new KeyLimits(open.counts, before.values());

  const batches: (BatchDone & Pick<Batch, 'ledger'>)[] = [];

  /** @param fresh the run if the group creates it: only limits change it then, whose changes are all that its insertion writes */
  const change = (
    runId: string,
    command: RunCommand,
    {
      onlyIn,
      fresh,
    }: { readonly onlyIn?: readonly RunState[] | undefined; readonly fresh?: CreatedRun | undefined } = {},
  ): Run => {
    const run = fresh ?? (created.has(runId) ? undefined : (after.get(runId) ?? before.get(runId)));
    if (!run) throw new RunNotFound(runId);
    if (onlyIn?.includes(run.state) === false) throw new RunInOtherState(runId, onlyIn, run.state);
    const outcome = decide(run, command, now, policy);
    if (isRejected(outcome)) throw new RunRejected(runId, outcome.rejection);
    if (outcome.run === run) return run;
    after.set(runId, outcome.run);
    if (fresh) created.set(runId, { ...fresh, ...outcome.run });
    limits.note(run, outcome.run);
    decided.push({ command, before: run, ...outcome });
    return outcome.run;
  };

  const cancel = (runId: string, reason: string): Run =>
    change(
      runId,
      { type: 'event', event: serviceCancel('concurrency', reason), reporter: {} },
      { fresh: created.get(runId) },
    );

  const create = (fresh: NewRun, isHeld = false): CreatedRun => {
    const run = createRun(fresh, now);
    const limit = limits.decide(fresh);
    if (limit.effect === 'cancel') for (const { id } of limit.runs) cancel(id, limit.reason);
    created.set(run.id, isHeld ? { ...run, notBefore: HELD } : run);
    limits.note(undefined, run);
    if (limit.effect === 'skip') cancel(run.id, limit.reason);
    return created.get(run.id) ?? run;
  };

  const refusalOf = ({ runId: id, command, onlyIn, refusal }: BatchChange): readonly BatchRefusal[] => {
    if (refusal !== undefined) return [{ id, detail: refusal }];
    try {
      change(id, command, { onlyIn });
      return [];
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      return [{ id, detail: error.message }];
    }
  };

  const carryOut = ({ ledger, record, creations = [], changes: asked = [] }: Batch): BatchOutcome => {
    if (!due.has(record)) return { kind: 'batch', isDone: false };
    const refused = asked.flatMap(refusalOf);
    for (const { fresh, isHeld } of creations) create(fresh, isHeld);
    batches.push({ ledger, record, changes: asked.length, refused });
    return { kind: 'batch', isDone: true };
  };

  const apply = (pending: Extract<PendingCommand, { kind: 'create' | 'change' }>): Result => {
    if (pending.kind === 'create') {
      limits.check(pending.fresh);
      const run = create(pending.fresh);
      return { run, view: { run, events: run.eventCount === 0 ? [] : (decided.at(-1)?.entries ?? []) } };
    }
    return { run: change(pending.runId, pending.command) };
  };

  const outcomes = commands.map((pending): CommandOutcome<Result> => {
    try {
      if (pending.kind === 'claim') return { value: REFUSED };
      if (pending.kind === 'batch') return { value: carryOut(pending.batch) };
      const replayOf = keys.replayOf(pending.idempotency);
      if (replayOf !== null) return { value: { replayOf } };
      if (pending.kind === 'change' && pending.hasPrecedingFailed?.())
        throw new PrecedingEventFailed(pending.runId);
      const value = apply(pending);
      keys.use(pending.idempotency);
      return { value };
    } catch (error) {
      return { error };
    }
  });
  const elapsed = commands.flatMap((pending) =>
    pending.kind === 'change' && pending.command.type === 'elapse' ? [pending.runId] : [],
  );
  const changes = changesOf({
    now,
    created: [...created.values()],
    decided,
    before,
    after,
    batches,
    elapsed,
  });
  return { changes, outcomes };
}

interface Decided extends Pick<Changes, 'now' | 'created' | 'decided' | 'before' | 'after' | 'batches'> {
  /** Ids of runs with an `elapse` command: their timer is written even if it is unchanged. */
  readonly elapsed: readonly string[];
}

function changesOf({ elapsed, ...group }: Decided): Changes {
  const { created, decided, before, after } = group;
  const entries = decided.flatMap((change) => change.entries);
  const counts = new StateCountDelta();
  counts.create(created.length);
  for (const { before: earlier, run } of decided) counts.move(earlier.state, run.state);
  const deprived = decided.flatMap((change) =>
    isReportOfEnd(change) ? [] : workersThatLose(change.before, change.run),
  );
  const labelled = distinct(
    decided.flatMap(({ command, run }) => (command.type === 'label' ? [run.id] : [])),
  ).flatMap((id) => after.get(id) ?? []);
  return {
    ...group,
    changedFields: changedFieldsOf(before, after),
    entries,
    endedAttempts: decided.flatMap(({ endedAttempt }) => endedAttempt ?? []),
    auditRecords: decided.flatMap(({ command, before: earlier, run }) =>
      auditRecordsOf(command, earlier, run),
    ),
    labelled,
    queue: queueChangeOf(group, labelled),
    executions: executionChangeOf(group),
    timers: timersOf(group, elapsed),
    feedEntries: entries.flatMap(({ runId, index, t }) => {
      const topic = after.get(runId)?.topic;
      return topic ? [{ topic, runId, eventIndex: index, recordedAt: t }] : [];
    }),
    counts,
    freedWorkers: distinct([...pairsOf(group)].flatMap(([earlier, run]) => workersThatLose(earlier, run))),
    deprivedWorkers: distinct(deprived),
  };
}

function auditRecordsOf(command: RunCommand, before: Run, after: Run): AuditRecord[] {
  if (command.type !== 'patch' && command.type !== 'label') return [];
  const { keyName } = command;
  if (keyName === null) return [];
  return command.type === 'patch'
    ? [{ action: 'run.patch', keyName, before, after, outputs: command.outputs }]
    : [{ action: 'run.labels', keyName, before, after }];
}

/** The updated runs that exist, before and after the group. */
function* pairsOf({ before, after }: Pick<Changes, 'before' | 'after'>): Iterable<[FoundRun, Run]> {
  for (const run of after.values()) {
    const earlier = before.get(run.id);
    if (earlier) yield [earlier, run];
  }
}

function changedFieldsOf(
  before: ReadonlyMap<string, FoundRun>,
  after: ReadonlyMap<string, Run>,
): ReadonlySet<ChangingField> {
  const fields = new Set<ChangingField>();
  for (const [earlier, run] of pairsOf({ before, after })) {
    for (const field of CHANGING_FIELDS) if (run[field] !== earlier[field]) fields.add(field);
  }
  return fields;
}

function executionChangeOf(group: Pick<Changes, 'before' | 'after'>): ExecutionChange {
  const ended = new Map<string, string>();
  const begun: string[] = [];
  for (const [earlier, run] of pairsOf(group)) {
    const [was, is] = [isInExecution(earlier.state), isInExecution(run.state)];
    const isSame = was && is && isSameExecution(earlier, run);
    if (was && !isSame) ended.set(run.id, earlier.workerId ?? '');
    if (is && !isSame) begun.push(run.id);
  }
  return { ended, begun };
}

/** Whether the row of `executions` stays as it is. */
function isSameExecution(a: Run, b: Run): boolean {
  const isSameTime = a.assignedAt?.getTime() === b.assignedAt?.getTime();
  const isSameWorker = a.workerId === b.workerId && a.attempt === b.attempt;
  return isSameTime && isSameWorker && a.gpuId === b.gpuId && a.gpuIds === b.gpuIds;
}

/** Fields of a claimable run that its row in the queue depends on and that may change. */
const QUEUED = ['priority', 'avoidedWorker', 'ramMb'] as const;

function queueChangeOf(group: Omit<Decided, 'elapsed'>, labelled: readonly Run[]): QueueChange {
  const created: readonly Run[] = group.created.filter(isClaimable);
  const changed: Run[] = [];
  const leaving: Run[] = [];
  const keys = new Map<string, number>();
  const add = ({ concurrencyKey: key }: Run, executing: number): void => {
    if (key !== null) keys.set(key, (keys.get(key) ?? 0) + executing);
  };
  for (const [earlier, run] of pairsOf(group)) {
    const [was, is] = [isClaimable(earlier), isClaimable(run)];
    if (is && (!was || QUEUED.some((field) => earlier[field] !== run[field]))) changed.push(run);
    if (was && !is) leaving.push(run);
    const executing = Number(isInExecution(run.state)) - Number(isInExecution(earlier.state));
    if (executing !== 0) add(run, executing);
  }
  const slots = group.decided.flatMap((change) => slotOf(change, group.now));
  for (const { key } of slots) if (key !== null) keys.set(key, (keys.get(key) ?? 0) + 1);
  const entering = [...created, ...changed];
  for (const run of [...entering, ...leaving]) add(run, 0);
  const isFilledByInsertion = arePlain(group.created);
  const unwritten = isFilledByInsertion ? changed : entering;
  return { entering, isFilledByInsertion, unwritten, leaving, labelled, keys, slots };
}

/** The program of a run that may still be executed, because somebody else than its worker ended the attempt. */
function slotOf({ command, before, run }: Change, now: Date): ConcurrencySlot[] {
  const { id: runId, attempt, concurrencyKey: key, gpuId, assignedAt } = before;
  const [workerId] = workersThatLose(before, run);
  if (workerId === undefined || !leavesContainer(command, workerId)) return [];
  const endsAt = new Date(now.getTime() + SLOT_MS);
  const gpuIds = before.gpuIds ?? (gpuId === null ? null : String(gpuId));
  const held = { ...shapeOf(before), gpuIds };
  return [{ runId, attempt, key, workerId, ...held, assignedAt: assignedAt ?? now, endsAt }];
}

function timersOf(
  { created, before, after }: Omit<Decided, 'elapsed'>,
  elapsed: readonly string[],
): RunTimer[] {
  const ofCreated = created.flatMap((run) => {
    const timer = timerOf(run);
    return timer ? [{ runId: run.id, dueAt: timer.dueAt }] : [];
  });
  const rewritten = new Set(elapsed);
  const ofChanged = [...new Set([...after.keys(), ...rewritten])].flatMap((runId) => {
    const earlier = before.get(runId);
    const run = after.get(runId) ?? earlier;
    if (!earlier || !run) return [];
    const dueAt = timerOf(run)?.dueAt ?? null;
    const isSame = timerOf(earlier)?.dueAt.getTime() === dueAt?.getTime();
    return isSame && !rewritten.has(runId) ? [] : [{ runId, dueAt }];
  });
  return [...ofCreated, ...ofChanged];
}

/** The worker that held the run before a change and does not hold it afterwards. */
function workersThatLose({ state, workerId }: Run, after: Run): string[] {
  if (workerId === null || !isInExecution(state)) return [];
  return isInExecution(after.state) && after.workerId === workerId ? [] : [workerId];
}

/** Whether the worker of an attempt learns of its end by this command. A reclaim comes after the worker timeout. */
function leavesContainer(command: RunCommand, workerId: string): boolean {
  if (command.type !== 'event') return command.type === 'patch' || command.type === 'elapse';
  const { kind } = command.event.effect;
  return (kind === 'CANCELLED' || kind === 'RETRIED') && command.reporter.workerId !== workerId;
}

/** Whether the worker reports the end of its run. */
function isReportOfEnd({ command, before }: Change): boolean {
  if (command.type !== 'event' || command.reporter.workerId !== before.workerId) return false;
  const { kind } = command.event.effect;
  return kind === 'COMPLETED' || kind === 'FAILED';
}

function distinct(ids: readonly string[]): string[] {
  return [...new Set(ids)];
}
