import { Inject, Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { Subject } from 'rxjs';
import { currentSpan } from '@longshore/common/tracing/current-span';
import { errorType, type Span, type Tracing } from '@longshore/common/tracing/tracing';
import { TRACING } from '../../common/tracing/tracing.module.js';
import { StatementTracer } from '../../database/sql/statement-tracer.js';
import type { CommittedEvent } from '../events/committed-event.js';
import { JournalMetrics } from './journal-metrics.js';
import { bytesOf, type PendingCommand } from './command.js';
import type { CommittedGroup } from './commit-group.js';
import { committedEventsOf } from './decide-group.js';

interface RequestPart {
  /** `performance.now()` at the first command. */
  readonly submittedAt: number;
  commands: number;
}

/**
 * Counts, traces and publishes the commits of the journal. A group serves many requests, so its span is the root of a
 * trace and links to them; each request has a span from submission to commit, which links to the group.
 */
@Injectable()
export class JournalInstrumentation implements OnApplicationShutdown {
  /** The events of each group after its commit. */
  readonly committed = new Subject<CommittedEvent>();
  readonly #submissions = new WeakMap<PendingCommand, { readonly span: Span; readonly at: number }>();
  private readonly logger = new Logger('RunEvents');

  constructor(
    readonly metrics: JournalMetrics,
    @Inject(TRACING) private readonly tracing: Tracing | null,
  ) {}

  /** Remembers which request submits a command. */
  submitted(pending: PendingCommand): void {
    if (this.tracing === null) return;
    const span = currentSpan();
    if (span?.isRecorded === true) this.#submissions.set(pending, { span, at: performance.now() });
  }

  /** Instruments one try to commit a group. @param commit receives the tracer of its statements, if it is traced */
  async commit(
    commands: readonly PendingCommand[],
    tries: number,
    commit: (statements?: StatementTracer) => Promise<CommittedGroup>,
  ): Promise<CommittedGroup['outcomes']> {
    const start = performance.now();
    const committed = await this.#trace(commands, tries, commit).catch((error: unknown) => {
      this.metrics.rolledBack();
      throw error;
    });
    this.metrics.committed(commands, committed, (performance.now() - start) / 1000);
    this.#publish(committed);
    return committed.outcomes;
  }

  onApplicationShutdown(): void {
    this.committed.complete();
  }

  async #trace<T>(
    commands: readonly PendingCommand[],
    tries: number,
    commit: (statements?: StatementTracer) => Promise<T>,
  ): Promise<T> {
    if (this.tracing === null) return commit();
    const requests = this.#requestsOf(commands);
    const group = this.tracing.start('journal group', {
      links: [...requests.keys()],
      attributes: { 'longshore.journal.commands': commands.length, 'longshore.journal.try': tries },
    });
    if (!group.isRecorded) return commit();
    group.set(describe(commands));
    const startedAt = performance.now();
    let failure: string | undefined;
    try {
      return await commit(new StatementTracer(this.tracing, group));
    } catch (error) {
      failure = errorType(error);
      throw error;
    } finally {
      for (const [parent, { submittedAt, commands: count }] of requests) {
        const queuedMs = Math.round((startedAt - submittedAt) * 1000) / 1000;
        const part = this.tracing.start('journal', {
          parent,
          links: [group],
          startedAt: submittedAt,
          attributes: { 'longshore.journal.commands': count, 'longshore.journal.queued_ms': queuedMs },
        });
        if (failure !== undefined) part.fail(failure);
        part.end();
      }
      if (failure !== undefined) group.fail(failure);
      group.end();
    }
  }

  /** The traced requests that the commands belong to; a bulk request counts once. */
  #requestsOf(commands: readonly PendingCommand[]): ReadonlyMap<Span, RequestPart> {
    const requests = new Map<Span, RequestPart>();
    for (const pending of commands) {
      const submission = this.#submissions.get(pending);
      if (submission === undefined) continue;
      const known = requests.get(submission.span);
      if (known === undefined) requests.set(submission.span, { submittedAt: submission.at, commands: 1 });
      else known.commands += 1;
    }
    return requests;
  }

  /** Never throws: the group is committed even if a subscriber fails. */
  #publish({ changes }: CommittedGroup): void {
    try {
      if (!this.committed.observed) return;
      for (const event of committedEventsOf(changes)) this.committed.next(event);
    } catch (error) {
      this.logger.error('Events were not published', error instanceof Error ? error.stack : String(error));
    }
  }
}

function describe(commands: readonly PendingCommand[]): Record<string, number> {
  const count = (kind: PendingCommand['kind']): number =>
    commands.filter((pending) => pending.kind === kind).length;
  return {
    'longshore.journal.bytes': commands.reduce((sum, pending) => sum + bytesOf(pending), 0),
    'longshore.journal.creations': count('create'),
    'longshore.journal.changes': count('change'),
    'longshore.journal.pages': count('page'),
    'longshore.journal.claims': count('claim'),
  };
}
