import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { SPECIAL_EVENT_TYPES } from '../machine/event-types.js';
import type { RunCommand } from '../machine/run-command.js';
import type { RunState } from '../machine/run-state.js';
import { TIMER_KINDS, timerOf } from '../machine/timers.js';
import { TRANSITIONS } from '../machine/transitions.js';
import { REJECTION_REASONS, RunNotFound, RunRejected } from '../run.errors.js';
import { QUEUE_REFUSALS, type QueueRefusal } from '../group-commit/group-commit-queue.js';
import type { PendingCommand, Result } from './command.js';
import { CommittedGroups, type CommittedGroup } from './committed-groups.js';

/** Why a run began another attempt. */
const RETRY_REASONS = ['failure', 'attempt_timeout', 'loss', 'request'] as const;

/** Metrics of the journal, and of what happens to runs. Only what is committed is counted. */
@Injectable()
export class JournalMetrics {
  private readonly created = this.counter('longshore_runs_created_total', 'Runs created');
  private readonly transitions = this.counter(
    'longshore_run_transitions_total',
    'Changes of the state of runs',
    ['from', 'to'],
  );
  private readonly events = this.counter(
    'longshore_events_total',
    'Events recorded on timelines, by type; types that the service does not handle as custom',
    ['type'],
  );
  private readonly retries = this.counter(
    'longshore_run_retries_total',
    'Attempts that were followed by another one, by reason',
    ['reason'],
  );
  private readonly timers = this.counter(
    'longshore_run_timers_total',
    'Delayed starts, back-offs, avoidances of workers and timeouts of runs that elapsed',
    ['kind'],
  );
  private readonly refusedEvents = this.counter(
    'longshore_refused_events_total',
    'Reported events that runs rejected, by reason and reporter',
    ['reason', 'reporter'],
  );
  private readonly queued = this.histogram(
    'longshore_run_queue_seconds',
    'Time from when a run could be claimed until it was assigned',
    [0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200, 43_200],
  );
  private readonly feedEntries = this.counter('longshore_feed_entries_total', 'Entries written to feeds');
  private readonly size = this.histogram(
    'longshore_journal_group_size',
    'Commands committed together in one transaction',
    [1, 2, 4, 8, 16, 32, 64, 128, 200],
  );
  private readonly seconds = this.histogram(
    'longshore_journal_commit_seconds',
    'Duration of the transaction of a group',
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
  );
  private readonly rollbacks = this.counter(
    'longshore_journal_rollbacks_total',
    'Failed transactions of groups; no other metric counts their commands',
  );
  private readonly refusedCommands = this.counter(
    'longshore_journal_refused_commands_total',
    'Commands refused because too many others wait, too many of the same API key wait, or a commit is stuck',
    ['reason'],
  );

  constructor(
    private readonly registry: Registry,
    groups: CommittedGroups,
  ) {
    this.#startAtZero();
    groups.subscribe((group) => this.#count(group));
  }

  observeQueue(queue: { readonly waiting: number; readonly waitingBytes: number }): void {
    const gauge = (name: string, help: string, read: () => number): Gauge =>
      new Gauge({
        name,
        help,
        registers: [this.registry],
        collect() {
          this.set(read());
        },
      });
    gauge('longshore_journal_waiting_commands', 'Commands that wait for the next group', () => queue.waiting);
    gauge('longshore_journal_waiting_bytes', 'Bytes of the waiting commands', () => queue.waitingBytes);
  }

  #count({ commands, outcomes, changes, heads, seconds }: CommittedGroup): void {
    this.size.observe(commands.length);
    this.seconds.observe(seconds);
    this.created.inc(changes.created.length);
    if (heads.size > 0) this.feedEntries.inc(changes.feedEntries.length);
    for (const { command, before, run, entries, endedAttempt } of changes.decided) {
      this.#transition(before.state, run.state);
      for (const { type } of entries)
        this.events.inc({ type: SPECIAL_EVENT_TYPES.includes(type) ? type : 'custom' });
      if (endedAttempt) this.retries.inc({ reason: retryReason(command) });
      const timer = command.type === 'elapse' ? timerOf(before) : null;
      if (timer) this.timers.inc({ kind: timer.kind });
    }
    for (const [at, outcome] of outcomes.entries()) {
      if ('error' in outcome) this.#refuse(commands[at], outcome.error);
      else this.#claim(outcome.value);
    }
  }

  rolledBack(): void {
    this.rollbacks.inc();
  }

  refused(reason: QueueRefusal): void {
    this.refusedCommands.inc({ reason });
  }

  private counter<L extends string = never>(name: string, help: string, labelNames: L[] = []): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  private histogram(name: string, help: string, buckets: number[]): Histogram {
    return new Histogram({ name, help, buckets, registers: [this.registry] });
  }

  #claim(result: Result): void {
    if (!('kind' in result) || result.kind !== 'served') return;
    for (const { run } of result.runs) {
      this.#transition('PENDING', 'ASSIGNED');
      const { queuedAt, assignedAt } = run;
      if (assignedAt) this.queued.observe(Math.max(0, assignedAt.getTime() - queuedAt.getTime()) / 1000);
    }
  }

  #transition(from: RunState, to: RunState): void {
    if (from !== to) this.transitions.inc({ from, to });
  }

  #refuse(pending: PendingCommand | undefined, error: unknown): void {
    if (pending?.kind !== 'change' || pending.command.type !== 'event') return;
    const reporter = pending.command.reporter.workerId === undefined ? 'client' : 'worker';
    if (error instanceof RunRejected) this.refusedEvents.inc({ reason: error.rejection.reason, reporter });
    else if (error instanceof RunNotFound) this.refusedEvents.inc({ reason: 'not-found', reporter });
  }

  /** Creates all series: the first increase of a series that did not exist is lost to rate(). */
  #startAtZero(): void {
    for (const { from, to } of TRANSITIONS) {
      for (const state of from) if (state !== to) this.transitions.inc({ from: state, to }, 0);
    }
    for (const type of [...SPECIAL_EVENT_TYPES, 'custom']) this.events.inc({ type }, 0);
    for (const reason of RETRY_REASONS) this.retries.inc({ reason }, 0);
    for (const kind of TIMER_KINDS) this.timers.inc({ kind }, 0);
    for (const reason of [...REJECTION_REASONS, 'not-found']) {
      for (const reporter of ['worker', 'client']) this.refusedEvents.inc({ reason, reporter }, 0);
    }
    for (const reason of QUEUE_REFUSALS) this.refusedCommands.inc({ reason }, 0);
  }
}

function retryReason(command: RunCommand): (typeof RETRY_REASONS)[number] {
  if (command.type === 'reclaim') return 'loss';
  if (command.type === 'elapse') return 'attempt_timeout';
  return command.type === 'event' && command.event.effect.kind === 'FAILED' ? 'failure' : 'request';
}
