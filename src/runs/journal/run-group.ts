import type { FeedAppend } from '../../feed/feed.repository.js';
import type { RunDeadline } from '../timeouts/deadline.repository.js';
import type { AuditRecord } from '../audit/audit.repository.js';
import { createRun } from '../machine/create-run.js';
import { dueAt, isClaimable } from '../machine/deadlines.js';
import { decide } from '../machine/decide.js';
import { isRejected, type RunCommand } from '../machine/run-command.js';
import type { EndedAttempt, NewRun, Run, TimelineEntry } from '../machine/run.js';
import { isInExecution } from '../machine/run-state.js';
import { StateCountDelta } from '../counts/state-count-delta.js';
import { toCommittedEvent, type CommittedEvent } from '../events/committed-event.js';
import { RunNotFound, RunRejected } from '../run.errors.js';
import { GroupCounts } from './group-counts.js';

/**
 * The work of one group between locking and writing: it decides commands in order, each on what the ones before made
 * of the run, and collects what has to be written. Nothing here touches the database.
 */
export class RunGroup {
  readonly created: { run: Run; readonly fresh: NewRun }[] = [];
  readonly entries: TimelineEntry[] = [];
  readonly endedAttempts: EndedAttempt[] = [];
  readonly auditRecords: AuditRecord[] = [];
  /** What the group does to the number of runs in each state. */
  readonly tally = new StateCountDelta();
  /** What is counted of it once it is committed. */
  readonly counts = new GroupCounts();
  /** The group's time. */
  readonly now: Date;
  readonly #before = new Map<string, Run>();
  readonly #after = new Map<string, Run>();
  /** Runs whose deadline was looked at, so that it must stand in the table as it is. */
  readonly #elapsed = new Set<string>();

  /** @param locked the runs that the group's commands are about, as far as they exist */
  constructor(now: Date, locked: readonly Run[]) {
    this.now = now;
    for (const run of locked) this.#before.set(run.id, run);
  }

  /** Makes a new run. */
  create(fresh: NewRun): Run {
    const run = createRun(fresh, this.now);
    this.created.push({ run, fresh });
    this.tally.create();
    this.counts.created += 1;
    return run;
  }

  /**
   * Carries out a command.
   * @throws RunNotFound, RunRejected; the group is as it was then
   */
  change(runId: string, command: RunCommand): Run {
    const run = this.#after.get(runId) ?? this.#before.get(runId);
    if (!run) throw new RunNotFound(runId);
    if (command.type === 'elapse') this.#elapsed.add(runId);
    const outcome = decide(run, command, this.now);
    if (isRejected(outcome)) throw new RunRejected(runId, outcome.rejection);
    this.#after.set(runId, outcome.run);
    this.tally.move(run.state, outcome.run.state);
    this.counts.change(command, run, outcome);
    if (command.type === 'patch') {
      const { keyName, outputs } = command;
      this.auditRecords.push({ keyName, before: run, after: outcome.run, outputs });
    }
    this.entries.push(...outcome.entries);
    if (outcome.endedAttempt) this.endedAttempts.push(outcome.endedAttempt);
    return outcome.run;
  }

  /** Runs whose row has to be written over. */
  get changed(): Run[] {
    return [...this.#after.values()];
  }

  /** Runs that belong into the queue and are not there with this priority. */
  get toEnqueue(): Run[] {
    const entering = this.changed.filter((run) => {
      const before = this.#before.get(run.id);
      return isClaimable(run) && (!before || !isClaimable(before) || before.priority !== run.priority);
    });
    return [...this.created.map(({ run }) => run), ...entering];
  }

  /** Ids of runs that have to leave the queue. */
  get toDequeue(): string[] {
    return this.changed
      .filter((run) => {
        const before = this.#before.get(run.id);
        return !isClaimable(run) && before !== undefined && isClaimable(before);
      })
      .map(({ id }) => id);
  }

  /** Workers out of whose hands runs have gone. */
  get relieved(): string[] {
    const workers = this.changed.flatMap((run) => {
      const before = this.#before.get(run.id);
      if (!before?.workerId || !isInExecution(before.state)) return [];
      return isInExecution(run.state) && run.workerId === before.workerId ? [] : [before.workerId];
    });
    return [...new Set(workers)];
  }

  /** Deadlines that are to be written: when time itself will next do something to a run, null for never. */
  get deadlines(): RunDeadline[] {
    const fresh = this.created.map(({ run }) => ({ runId: run.id, before: null, after: dueAt(run) }));
    const touched = new Set([...this.#after.keys(), ...this.#elapsed]);
    const changed = [...touched].flatMap((runId) => {
      const before = this.#before.get(runId);
      const after = this.#after.get(runId) ?? before;
      return before && after ? [{ runId, before: dueAt(before), after: dueAt(after) }] : [];
    });
    return [...fresh, ...changed]
      .filter(
        ({ runId, before, after }) => before?.getTime() !== after?.getTime() || this.#elapsed.has(runId),
      )
      .map(({ runId, after }) => ({ runId, dueAt: after }));
  }

  /** What the feeds gain: every timeline entry of a run that names a topic, in the order of the timeline. */
  get feedEntries(): FeedAppend[] {
    return this.entries.flatMap((entry) => {
      const topic = this.#after.get(entry.runId)?.topic;
      return topic ? [{ topic, runId: entry.runId, eventIndex: entry.index, recordedAt: entry.t }] : [];
    });
  }

  /** The events that the group records, in the order of the commands. */
  get committedEvents(): CommittedEvent[] {
    return this.entries.flatMap((entry) => {
      const run = this.#after.get(entry.runId);
      if (!run) return [];
      const isOfEntry = ({ runId, attempt }: EndedAttempt): boolean =>
        runId === entry.runId && attempt === entry.attempt;
      const { workerId } = (entry.attempt !== run.attempt && this.endedAttempts.find(isOfEntry)) || run;
      return [toCommittedEvent(entry, { topic: run.topic, workerId })];
    });
  }
}
