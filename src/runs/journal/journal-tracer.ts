import { Inject, Injectable } from '@nestjs/common';
import { StatementTracer } from '../../database/statement-tracer.js';
import { currentSpan } from '@longshore/common/tracing/current-span';
import { TRACING } from '../../common/tracing/tracing.module.js';
import { errorType, type Span, type Tracing } from '@longshore/common/tracing/tracing';
import { bytesOf, type PendingCommand } from './pending-command.js';

/** By whom a member was handed in, and when by `performance.now()`. */
interface HandedIn {
  readonly by: Span;
  readonly at: number;
}

/**
 * Traces the groups of the journal. A group belongs to many requests, so its span begins a trace of its own and points
 * to them; each of them has a span for the time from the handing in to the commit, which points to the group.
 */
@Injectable()
export class JournalTracer {
  readonly #handedIn = new WeakMap<PendingCommand, HandedIn>();

  constructor(@Inject(TRACING) private readonly tracing: Tracing | null) {}

  /** Notes for which request a member is handed in. */
  note(member: PendingCommand): void {
    if (this.tracing === null) return;
    const by = currentSpan();
    if (by?.isRecorded === true) this.#handedIn.set(member, { by, at: performance.now() });
  }

  /**
   * Traces one try to commit a group.
   * @param tries 1 for the first
   * @param commit is given who traces its statements; nobody when the group is not traced
   */
  async trace<T>(
    members: readonly PendingCommand[],
    tries: number,
    commit: (statements?: StatementTracer) => Promise<T>,
  ): Promise<T> {
    if (this.tracing === null) return commit();
    const requests = this.#requestsOf(members);
    const span = this.tracing.start('journal group', {
      links: [...requests.keys()],
      attributes: { 'longshore.journal.commands': members.length, 'longshore.journal.try': tries },
    });
    if (!span.isRecorded) return commit();
    span.set(describe(members));
    const from = performance.now();
    let failure: string | undefined;
    try {
      return await commit(new StatementTracer(this.tracing, span));
    } catch (error) {
      failure = errorType(error);
      throw error;
    } finally {
      for (const [by, { at, commands }] of requests) {
        this.#endOne(this.tracing, { by, at, commands, group: span, from, failure });
      }
      if (failure !== undefined) span.fail(failure);
      span.end();
    }
  }

  #endOne(tracing: Tracing, part: Part): void {
    const { by, at, commands, group, from, failure } = part;
    const span = tracing.start('journal', {
      parent: by,
      links: [group],
      startedAt: at,
      attributes: {
        'longshore.journal.commands': commands,
        'longshore.journal.queued_ms': Math.round((from - at) * 1000) / 1000,
      },
    });
    if (failure !== undefined) span.fail(failure);
    span.end();
  }

  /** The traced requests that members of the group come from; a bulk request counts once. */
  #requestsOf(members: readonly PendingCommand[]): ReadonlyMap<Span, { at: number; commands: number }> {
    const requests = new Map<Span, { at: number; commands: number }>();
    for (const member of members) {
      const handedIn = this.#handedIn.get(member);
      if (handedIn === undefined) continue;
      const known = requests.get(handedIn.by);
      if (known === undefined) requests.set(handedIn.by, { at: handedIn.at, commands: 1 });
      else known.commands += 1;
    }
    return requests;
  }
}

/** What one request has in a group. */
interface Part {
  readonly by: Span;
  /** When its first command was handed in. */
  readonly at: number;
  readonly commands: number;
  readonly group: Span;
  /** When the group began. */
  readonly from: number;
  readonly failure: string | undefined;
}

function describe(members: readonly PendingCommand[]): Record<string, number> {
  const count = (kind: PendingCommand['kind']): number =>
    members.filter((member) => member.kind === kind).length;
  return {
    'longshore.journal.bytes': members.reduce((sum, member) => sum + bytesOf(member), 0),
    'longshore.journal.creations': count('create'),
    'longshore.journal.changes': count('change'),
    'longshore.journal.claims': count('claim'),
  };
}
