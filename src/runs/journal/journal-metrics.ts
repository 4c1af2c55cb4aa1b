import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { RunMetrics } from './run-metrics.js';
import { LANE_REFUSALS, type LaneRefusal } from './group-commit-queue.js';

/** What waits to be committed. */
export interface WaitingCommands {
  readonly waiting: number;
  readonly waitingBytes: number;
}

/** What the journal tells about its groups. */
@Injectable()
export class JournalMetrics {
  /** What is told of the runs themselves. */
  readonly runs: RunMetrics;
  readonly #size: Histogram;
  readonly #seconds: Histogram;
  readonly #rollbacks: Counter;
  readonly #refused: Counter<'reason'>;

  constructor(private readonly registry: Registry) {
    const registers = [registry];
    this.runs = new RunMetrics(registry);
    this.#size = new Histogram({
      name: 'longshore_journal_group_size',
      help: 'Commands committed together in one transaction',
      buckets: [1, 2, 4, 8, 16, 32, 64, 128, 200],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'longshore_journal_commit_seconds',
      help: 'Time from the begin to the commit of a group',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5],
      registers,
    });
    this.#rollbacks = new Counter({
      name: 'longshore_journal_rollbacks_total',
      help: 'Transactions of groups that failed; nothing of them is in any other count',
      registers,
    });
    this.#refused = new Counter({
      name: 'longshore_journal_refused_commands_total',
      help: 'Commands refused, or not kept waiting any longer, because of too many others or of a stuck commit',
      labelNames: ['reason'],
      registers,
    });
    for (const reason of LANE_REFUSALS) this.#refused.inc({ reason }, 0);
  }

  /** Tells from now on what waits in the lane. */
  watch(lane: WaitingCommands): void {
    const registers = [this.registry];
    const commands: Gauge = new Gauge({
      name: 'longshore_journal_waiting_commands',
      help: 'Commands that wait for the next group',
      registers,
      collect: () => commands.set(lane.waiting),
    });
    const bytes: Gauge = new Gauge({
      name: 'longshore_journal_waiting_bytes',
      help: 'What the waiting commands bring along',
      registers,
      collect: () => bytes.set(lane.waitingBytes),
    });
  }

  /** Counts one committed group. */
  observeGroup(size: number, seconds: number): void {
    this.#size.observe(size);
    this.#seconds.observe(seconds);
  }

  /** Counts one transaction that failed. */
  rolledBack(): void {
    this.#rollbacks.inc();
  }

  /** Counts one command that the lane did not take or keep. */
  refused(reason: LaneRefusal): void {
    this.#refused.inc({ reason });
  }
}
