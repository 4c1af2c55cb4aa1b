import { jsonText } from '@longshore/common/json/json-text';
import type { FeedEvent } from '../../feed/cache/feed-entry.js';
import type { FeedAppend } from '../../feed/feed.repository.js';
import type { AuditRecord } from '../audit/audit.repository.js';
import { StateCountDelta } from '../counts/state-count-delta.js';
import { toCommittedEvent, type CommittedEvent } from '../events/committed-event.js';
import { decide } from '../machine/decide.js';
import { isRejected, type Decision, type RunCommand } from '../machine/run-command.js';
import { isInExecution } from '../machine/run-state.js';
import {
  CHANGING_FIELDS,
  createRun,
  isRestricted,
  type ChangingField,
  type EndedAttempt,
  type LockedRun,
  type NewRun,
  type Run,
  type RunRecord,
  type TimelineEntry,
} from '../machine/run.js';
import { isClaimable, timerOf } from '../machine/timers.js';
import { SLOT_MS, type ConcurrencySlot } from '../queue/concurrency-keys.js';
import type { RestrictedChange } from '../queue/restricted-queue.repository.js';
import { RunNotFound, RunRejected } from '../run.errors.js';
import type { RunTimer } from '../timeouts/run-timers.js';

export interface Change extends Decision {
  readonly command: RunCommand;
  readonly before: Run;
}

/** Decides the commands of a group in order, each on the result of those before it; derives the rows to write. Pure. */
export class RunGroup {
  readonly created: RunRecord[] = [];
  readonly changes: Change[] = [];
  /** By how much the group changes the number of runs in each state. */
  readonly countDelta = new StateCountDelta();
  readonly #before: ReadonlyMap<string, LockedRun>;
  readonly #after = new Map<string, Run>();
  /** Runs with an `elapse` command: their timer is written even if it is unchanged. */
  readonly #elapsed = new Set<string>();

  /** @param locked the existing runs among those that the commands name */
  constructor(
    readonly now: Date,
    locked: readonly LockedRun[],
  ) {
    this.#before = new Map(locked.map((run) => [run.id, run]));
  }

  create(fresh: NewRun): RunRecord {
    const run = createRun(fresh, this.now);
    this.created.push(run);
    this.countDelta.create();
    return run;
  }

  /** Decides a command. @throws RunNotFound, RunRejected; nothing has changed then */
  change(runId: string, command: RunCommand): Run {
    const before = this.#after.get(runId) ?? this.#before.get(runId);
    if (!before) throw new RunNotFound(runId);
    if (command.type === 'elapse') this.#elapsed.add(runId);
    const outcome = decide(before, command, this.now);
    if (isRejected(outcome)) throw new RunRejected(runId, outcome.rejection);
    this.#after.set(runId, outcome.run);
    this.countDelta.move(before.state, outcome.run.state);
    this.changes.push({ command, before, ...outcome });
    return outcome.run;
  }

  /** Runs whose rows have to be updated. */
  get changed(): Run[] {
    return [...this.#after.values()];
  }

  /** Fields in which at least one of these runs differs from its row. */
  get changedFields(): ReadonlySet<ChangingField> {
    const fields = new Set<ChangingField>();
    for (const [id, after] of this.#after) {
      const before = this.#before.get(id);
      for (const field of CHANGING_FIELDS) if (after[field] !== before?.[field]) fields.add(field);
    }
    return fields;
  }

  get entries(): TimelineEntry[] {
    return this.changes.flatMap(({ entries }) => entries);
  }

  get endedAttempts(): EndedAttempt[] {
    return this.changes.flatMap(({ endedAttempt }) => endedAttempt ?? []);
  }

  get auditRecords(): AuditRecord[] {
    return this.changes.flatMap(({ command, before, run: after }) =>
      command.type === 'patch' ? [{ keyName: command.keyName, before, after, outputs: command.outputs }] : [],
    );
  }

  /** Runs that enter the plain queue or change in it. */
  get toEnqueue(): Run[] {
    return this.#entering.filter((run) => !isRestricted(run));
  }

  /** Ids of runs that leave the plain queue. */
  get toDequeue(): string[] {
    return this.#leaving.flatMap((run) => (isRestricted(run) ? [] : [run.id]));
  }

  /** What changes in the restricted queue and for the keys of runs; null: nothing. */
  get restricted(): RestrictedChange | null {
    const entering = this.#entering.filter(isRestricted);
    const leaving = this.#leaving.filter(isRestricted);
    const keys = new Map<string, number>();
    const add = (key: string | null, executing: number): void => {
      if (key !== null) keys.set(key, (keys.get(key) ?? 0) + executing);
    };
    const slots = this.#slots;
    for (const { key } of slots) add(key, 1);
    for (const { concurrencyKey } of [...entering, ...leaving]) add(concurrencyKey, 0);
    for (const [id, after] of this.#after) {
      const before = this.#before.get(id);
      if (!before || after.concurrencyKey === null) continue;
      const executing = Number(isInExecution(after.state)) - Number(isInExecution(before.state));
      if (executing !== 0) add(after.concurrencyKey, executing);
    }
    return entering.length + leaving.length + keys.size === 0 ? null : { entering, leaving, keys, slots };
  }

  /** Containers with a key that may still be executed, because somebody else than their worker ended the attempt. */
  get #slots(): ConcurrencySlot[] {
    return this.changes.flatMap(({ command, before, run }) => {
      const { id: runId, concurrencyKey: key, assignedAt } = before;
      const [workerId] = workersThatLose(before, run);
      if (key === null || workerId === undefined || !leavesContainer(command, workerId)) return [];
      const endsAt = new Date(this.now.getTime() + SLOT_MS);
      return [{ runId, key, workerId, assignedAt: assignedAt ?? this.now, endsAt }];
    });
  }

  get #entering(): Run[] {
    const entering = this.changed.filter((run) => {
      const before = this.#before.get(run.id);
      if (!isClaimable(run)) return false;
      if (!before || !isClaimable(before)) return true;
      return before.priority !== run.priority || before.avoidedWorker !== run.avoidedWorker;
    });
    return [...this.created.filter(isClaimable), ...entering];
  }

  /** As they were before. A run whose avoidance ends moves to the plain queue. */
  get #leaving(): Run[] {
    return this.changed.flatMap((run) => {
      const before = this.#before.get(run.id);
      if (!before || !isClaimable(before)) return [];
      return isClaimable(run) && isRestricted(before) === isRestricted(run) ? [] : [before];
    });
  }

  /** Ids of workers that lose a run and so have free capacity. */
  get freedWorkers(): string[] {
    const workers = this.changed.flatMap((run) => {
      const before = this.#before.get(run.id);
      return before ? workersThatLose(before, run) : [];
    });
    return [...new Set(workers)];
  }

  /** Ids of workers that lose a run by anything but their own report of its end. */
  get deprivedWorkers(): string[] {
    const workers = this.changes.flatMap(({ command, before, run }) =>
      isReportOfEnd(command, before.workerId) ? [] : workersThatLose(before, run),
    );
    return [...new Set(workers)];
  }

  /** Timers to write; one whose `dueAt` is null is removed. */
  get timers(): RunTimer[] {
    const created = this.created.flatMap((run) => {
      const timer = timerOf(run);
      return timer ? [{ runId: run.id, dueAt: timer.dueAt }] : [];
    });
    const touched = new Set([...this.#after.keys(), ...this.#elapsed]);
    const changed = [...touched].flatMap((runId) => {
      const before = this.#before.get(runId);
      const after = this.#after.get(runId) ?? before;
      if (!before || !after) return [];
      const dueAt = timerOf(after)?.dueAt ?? null;
      const isSame = timerOf(before)?.dueAt.getTime() === dueAt?.getTime();
      return isSame && !this.#elapsed.has(runId) ? [] : [{ runId, dueAt }];
    });
    return [...created, ...changed];
  }

  /** Feed entries: every timeline entry of a run with a topic, in the order of the timeline. */
  get feedEntries(): FeedAppend[] {
    return this.entries.flatMap((entry) => {
      const topic = this.#after.get(entry.runId)?.topic;
      return topic ? [{ topic, runId: entry.runId, eventIndex: entry.index, recordedAt: entry.t }] : [];
    });
  }

  /** By topic, what its feed shows of the feed entries; without topics of runs whose attributes were not read. */
  feedEvents(topics: ReadonlySet<string>): ReadonlyMap<string, readonly FeedEvent[]> {
    const shown = new Map<string, FeedEvent[]>();
    const unread = new Set<string>();
    for (const entry of this.entries) {
      const run = this.#before.get(entry.runId);
      if (!run || run.topic === null || !topics.has(run.topic)) continue;
      if (run.hasAttributes && run.attributes === null) unread.add(run.topic);
      const { runId, attempt, type, t, state } = entry;
      const [msg, payload] = [JSON.stringify(entry.msg), jsonText(entry.payload)];
      const attributes = run.attributes && jsonText(run.attributes);
      const events = shown.get(run.topic) ?? [];
      shown.set(run.topic, events);
      events.push({ runId, attempt, type, msg, t, state, payload, attributes });
    }
    for (const topic of unread) shown.delete(topic);
    return shown;
  }

  /** The recorded events, in the order of the commands. */
  get committedEvents(): CommittedEvent[] {
    const { endedAttempts } = this;
    return this.entries.flatMap((entry) => {
      const run = this.#after.get(entry.runId);
      if (!run) return [];
      const isOfEntry = ({ runId, attempt }: EndedAttempt): boolean =>
        runId === entry.runId && attempt === entry.attempt;
      const { workerId } = (entry.attempt !== run.attempt && endedAttempts.find(isOfEntry)) || run;
      return [toCommittedEvent(entry, { topic: run.topic, workerId })];
    });
  }
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

/** Whether the worker reports the end of a run. */
function isReportOfEnd(command: RunCommand, workerId: string | null): boolean {
  if (command.type !== 'event' || command.reporter.workerId !== workerId) return false;
  const { kind } = command.event.effect;
  return kind === 'COMPLETED' || kind === 'FAILED';
}
