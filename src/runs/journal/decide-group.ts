import { DomainError } from '../../common/errors/domain-error.js';
import type { FeedAppend } from '../../feed/feed.repository.js';
import type { AuditRecord } from '../audit/audit.repository.js';
import { StateCountDelta } from '../counts/run-counts.repository.js';
import type { CommandOutcome } from '../group-commit/group-commit-queue.js';
import type { IdempotencyLedger } from '../idempotency/idempotency.repository.js';
import { decide } from '../machine/decide.js';
import { serviceCancel } from '../machine/run-event.js';
import { isRejected, type Decision, type Policy, type RunCommand } from '../machine/run-command.js';
import { type RunState } from '../machine/run-state.js';
import {
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
import type { QueueChange } from '../queue/queue.repository.js';
import { PrecedingEventFailed, RunInOtherState, RunNotFound, RunRejected } from '../run.errors.js';
import { type ExecutionChange } from '../storage/run.repository.js';
import type { FileChanges, FileUse, Leavings } from '../storage/artifacts.js';
import { FilesUnchecked, mayLeaveFiles } from '../files/reported-files.js';
import type { OpenRuns } from '../storage/open-runs.js';
import type { RunTimer } from '../storage/run-timers.js';
import { UnknownDependency } from '../run.errors.js';
import { waitedFor, waitsOf } from './dependents.js';
import { changesOf } from './group-changes.js';
import { KeyLimits } from './key-limits.js';
import type { DependencyEnd, FoundGroup, GroupDeltas, NewDependency } from '../storage/groups.js';
import {
  REFUSED,
  type Batch,
  type BatchChange,
  type BatchDone,
  type BatchOutcome,
  type BatchRecord,
  type BatchRefusal,
  type PendingCommand,
  recordsOf,
  type Result,
} from './command.js';

const NONE: ReadonlySet<string> = new Set();

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
  /** The groups that new runs wait for. */
  readonly groups: ReadonlyMap<string, FoundGroup>;
  /** The time of the group, taken after they were read. */
  readonly now: Date;
}

/** The rows that a group writes, without those of its claims. */
export interface Changes extends FileChanges {
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
  readonly batches: readonly (BatchDone & BatchRecord)[];
  /** What new runs wait for. */
  readonly dependencies: readonly NewDependency[];
  /** Ends of runs that others wait for. */
  readonly ends: readonly DependencyEnd[];
  /** By how much the numbers of groups change; those of claims are added later. */
  readonly groups: GroupDeltas;
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
 * @param conceal the command as it may be recorded
 * @returns what to write, and an outcome for each command; claims are refused until they are served
 */
export function decideGroup(
  commands: readonly PendingCommand[],
  { keys, found, due, open, groups, now }: GroupStart,
  policy: Policy,
  conceal: (run: Run, command: RunCommand) => RunCommand,
): { readonly changes: Changes; readonly outcomes: CommandOutcome<Result>[] } {
  const created = new Map<string, CreatedRun>();
  const decided: Change[] = [];
  const before = new Map([...open.oldest, ...found].map((run) => [run.id, run]));
  const after = new Map<string, Run>();
  const limits = new KeyLimits(open.counts, before.values());

  const batches: (BatchDone & BatchRecord)[] = [];
  const dependencies: NewDependency[] = [];
  const leavings: Leavings[] = [];
  const fileUses: FileUse[] = [];

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
    const stated = conceal(run, command);
    const outcome = decide(run, stated, now, policy);
    if (isRejected(outcome)) throw new RunRejected(runId, outcome.rejection);
    if (mayLeaveFiles(run, command)) {
      if (command.left?.attempt !== run.attempt) throw new FilesUnchecked(run.attempt);
      leavings.push({ ...command.left, runId });
    }
    if (outcome.run === run) return run;
    after.set(runId, outcome.run);
    if (fresh) created.set(runId, { ...fresh, ...outcome.run });
    limits.note(run, outcome.run);
    decided.push({ command: stated, before: run, ...outcome });
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
    const { own, waitsFor, broken } = waitsOf(
      fresh,
      (id) => created.get(id) ?? after.get(id) ?? before.get(id),
      groups,
    );
    for (const dependency of own) dependencies.push(dependency);
    for (const fileId of fresh.files ?? []) fileUses.push({ runId: run.id, fileId });
    const wait = waitsFor === null ? isHeld && { notBefore: HELD } : { notBefore: HELD, waitsFor };
    created.set(run.id, wait ? { ...run, ...wait } : run);
    limits.note(undefined, run);
    if (limit.effect === 'skip') cancel(run.id, limit.reason);
    else if (broken) change(run.id, { type: 'resolve', met: 0, broken }, { fresh: created.get(run.id) });
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

  /** @throws UnknownDependency */
  const checkParents = ({ dependsOn = [] }: NewRun, own: ReadonlySet<string>): void => {
    for (const { parentId: id, isGroup } of dependsOn) {
      const isKnown = own.has(id) || (isGroup ? groups.has(id) : before.has(id) || created.has(id));
      if (!isKnown) throw new UnknownDependency(id, isGroup);
    }
  };

  const carryOut = (batch: Batch): BatchOutcome => {
    const { creations = [], changes: asked = [] } = batch;
    const records = recordsOf(batch);
    if (!records.every(({ record }) => due.has(record))) return { kind: 'batch', isDone: false };
    const own = new Set(creations.flatMap(({ fresh: { id, groupId } }) => [id, groupId ?? id]));
    for (const { fresh } of creations) checkParents(fresh, own);
    const refused = asked.flatMap(refusalOf);
    for (const { fresh, isHeld } of creations) create(fresh, isHeld);
    for (const { ledger, record } of records)
      batches.push({ ledger, record, changes: asked.length, refused });
    return { kind: 'batch', isDone: true };
  };

  const apply = (pending: Extract<PendingCommand, { kind: 'create' | 'change' }>): Result => {
    if (pending.kind === 'create') {
      limits.check(pending.fresh);
      checkParents(pending.fresh, NONE);
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
  for (const [id, { all: dependents }] of waitedFor(dependencies, false))
    change(id, { type: 'depend', dependents }, { fresh: created.get(id) });
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
    dependencies,
    leavings,
    fileUses,
    elapsed,
  });
  return { changes, outcomes };
}
