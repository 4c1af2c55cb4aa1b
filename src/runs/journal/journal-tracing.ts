import { Inject, Injectable } from '@nestjs/common';
import { currentSpan } from '@longshore/common/tracing/current-span';
import { errorType, type Span, type Tracing } from '@longshore/common/tracing/tracing';
import { TRACING } from '../../common/tracing/tracing.module.js';
import { StatementTracer } from '../../database/sql/statement-tracer.js';
import { bytesOf, type PendingCommand } from './command.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

interface RequestPart {
  /** `monotonicMs` at the first command. */
  readonly submittedAt: number;
  commands: number;
}

/** The spans of one try to commit a group. */
export interface GroupTrace {
  readonly statements: StatementTracer;
  /** @param error why the try has failed; absent: the group is committed */
  end(error?: unknown): void;
}

/**
 * Traces the journal. A group serves many requests, so its span is the root of a trace and links to them; each request has a span
 * from submission to commit, which links to the group.
 */
@Injectable()
export class JournalTracing {
  readonly #submissions = new WeakMap<PendingCommand, { readonly span: Span; readonly at: number }>();

  constructor(@Inject(TRACING) private readonly tracing: Tracing | null) {}

  /** Remembers which request submits a command. */
  submitted(pending: PendingCommand): void {
    if (this.tracing === null) return;
    const span = currentSpan();
    if (span?.isRecorded === true) this.#submissions.set(pending, { span, at: monotonicMs() });
  }

  /** Begins a try to commit a group; undefined if it is not traced. @param tries 1 for the first */
  begin(commands: readonly PendingCommand[], tries: number): GroupTrace | undefined {
    const { tracing } = this;
    if (tracing === null) return undefined;
    const requests = this.#requestsOf(commands);
    const group = tracing.start('journal group', {
      links: [...requests.keys()],
      attributes: { 'longshore.journal.commands': commands.length, 'longshore.journal.try': tries },
    });
    if (!group.isRecorded) return undefined;
    group.set(describe(commands));
    const startedAt = monotonicMs();
    const end = (error?: unknown): void => {
      for (const [parent, { submittedAt, commands: count }] of requests) {
        const queuedMs = Math.round((startedAt - submittedAt) * 1000) / 1000;
        const part = tracing.start('journal', {
          parent,
          links: [group],
          startedAt: submittedAt,
          attributes: { 'longshore.journal.commands': count, 'longshore.journal.queued_ms': queuedMs },
        });
        endSpan(part, error);
      }
      endSpan(group, error);
    };
    return { statements: new StatementTracer(tracing, group), end };
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
}

function endSpan(span: Span, error: unknown): void {
  if (error !== undefined) span.fail(errorType(error));
  span.end();
}

function describe(commands: readonly PendingCommand[]): Record<string, number> {
  const count = (kind: PendingCommand['kind']): number =>
    commands.filter((pending) => pending.kind === kind).length;
  return {
    'longshore.journal.bytes': commands.reduce((sum, pending) => sum + bytesOf(pending), 0),
    'longshore.journal.creations': count('create'),
    'longshore.journal.changes': count('change'),
    'longshore.journal.batches': count('batch'),
    'longshore.journal.claims': count('claim'),
  };
}
