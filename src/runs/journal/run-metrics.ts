import { Counter, Histogram, type Registry } from 'prom-client';
import { DEADLINE_KINDS } from '../machine/deadlines.js';
import { TRANSITIONS } from '../machine/transitions.js';
import { REJECTION_REASONS, RunNotFound, RunRejected } from '../run.errors.js';
import type { MemberOutcome } from './group-commit-queue.js';
import { COUNTED_EVENT_TYPES, RETRY_REASONS, type GroupCounts } from './group-counts.js';
import type { PendingCommand } from './pending-command.js';

/** A group that was committed. */
export interface CommittedGroup {
  readonly counts: GroupCounts;
  readonly members: readonly PendingCommand[];
  /** One a member. */
  readonly outcomes: readonly MemberOutcome<unknown>[];
  /** Entries that it appended to feeds. */
  readonly feedEntries: number;
}

/** Why an event can be refused, as it is counted. */
const REFUSALS = [...REJECTION_REASONS, 'not-found'] as const;

const REPORTERS = ['worker', 'client'] as const;

/** What happens to runs, counted once it is committed. */
export class RunMetrics {
  readonly #created: Counter;
  readonly #transitions: Counter<'from' | 'to'>;
  readonly #events: Counter<'type'>;
  readonly #retries: Counter<'reason'>;
  readonly #deadlines: Counter<'kind'>;
  readonly #refused: Counter<'reason' | 'reporter'>;
  readonly #queued: Histogram;
  readonly #feedEntries: Counter;

  constructor(registry: Registry) {
    const registers = [registry];
    this.#created = new Counter({
      name: 'longshore_runs_created_total',
      help: 'Runs that were created',
      registers,
    });
    this.#transitions = new Counter({
      name: 'longshore_run_transitions_total',
      help: 'How often runs went from one state into another',
      labelNames: ['from', 'to'],
      registers,
    });
    this.#events = new Counter({
      name: 'longshore_events_total',
      help: 'Events put on timelines, by type; those without a meaning of their own as custom',
      labelNames: ['type'],
      registers,
    });
    this.#retries = new Counter({
      name: 'longshore_run_retries_total',
      help: 'Attempts that were followed by another one, by what led to it',
      labelNames: ['reason'],
      registers,
    });
    this.#deadlines = new Counter({
      name: 'longshore_run_deadlines_total',
      help: 'Back-offs that ended and time budgets that ran out',
      labelNames: ['kind'],
      registers,
    });
    this.#refused = new Counter({
      name: 'longshore_refused_events_total',
      help: 'Reported events that runs did not accept, by reason and by who reported them',
      labelNames: ['reason', 'reporter'],
      registers,
    });
    this.#queued = new Histogram({
      name: 'longshore_run_queue_seconds',
      help: 'Time from when a run could be claimed until it was handed out',
      buckets: [0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 1_800, 7_200, 43_200],
      registers,
    });
    this.#feedEntries = new Counter({
      name: 'longshore_feed_entries_total',
      help: 'Entries written to feeds',
      registers,
    });
    this.#beginAtZero();
  }

  /** Counts what a group did, and what was refused in it. */
  committed({ counts, members, outcomes, feedEntries }: CommittedGroup): void {
    this.#created.inc(counts.created);
    this.#feedEntries.inc(feedEntries);
    for (const [from, ends] of counts.transitions) {
      for (const [to, count] of ends) this.#transitions.inc({ from, to }, count);
    }
    for (const [type, count] of counts.events) this.#events.inc({ type }, count);
    for (const [reason, count] of counts.retries) this.#retries.inc({ reason }, count);
    for (const [kind, count] of counts.deadlines) this.#deadlines.inc({ kind }, count);
    for (const seconds of counts.queued) this.#queued.observe(seconds);
    for (const [at, outcome] of outcomes.entries()) {
      if ('error' in outcome) this.#refuse(members[at], outcome.error);
    }
  }

  #refuse(member: PendingCommand | undefined, error: unknown): void {
    if (member?.kind !== 'change' || member.command.type !== 'event') return;
    const reporter = member.command.reporter.workerId === undefined ? 'client' : 'worker';
    if (error instanceof RunRejected) this.#refused.inc({ reason: error.rejection.reason, reporter });
    else if (error instanceof RunNotFound) this.#refused.inc({ reason: 'not-found', reporter });
  }

  /** A series that appears with its first increase hides that one from a rate. */
  #beginAtZero(): void {
    for (const { from, to } of TRANSITIONS) {
      for (const state of from) if (state !== to) this.#transitions.inc({ from: state, to }, 0);
    }
    for (const type of COUNTED_EVENT_TYPES) this.#events.inc({ type }, 0);
    for (const reason of RETRY_REASONS) this.#retries.inc({ reason }, 0);
    for (const kind of DEADLINE_KINDS) this.#deadlines.inc({ kind }, 0);
    for (const reason of REFUSALS) {
      for (const reporter of REPORTERS) this.#refused.inc({ reason, reporter }, 0);
    }
  }
}
