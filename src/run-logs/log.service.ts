import { Injectable } from '@nestjs/common';
import { InvalidRequest } from '../common/errors/domain-error.js';
import type { EventStreamResponse } from '../common/http/server/bounded-readers.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { CommitNotices } from '../database/notices/commit-notices.js';
import type { Topics } from '../database/notices/topics.js';
import { retryWhileUnavailable } from '../database/failover/unavailable.js';
import { RunNotFound } from '../runs/run.errors.js';
import { isRunId } from '../runs/machine/new-id.js';
import type { LogPageQueryDto } from './log.dto.js';
import { LOG_LIMITS } from './log-limits.js';
import { topicOf } from './log-completeness.js';
import { toEndFrame, toFrames, type LogPage } from './log-page.js';
import { LogReader, type LogRange } from './log-reader.js';
import { monotonicMs } from '../common/monotonic-ms.js';

const DEFAULT_LIMIT = 1000;

/** What a client asks for. */
export type LogRequest = Omit<LogPageQueryDto, 'wait'> & {
  readonly runId: string;
  /** Id of the caller's API key. */
  readonly callerId: string;
};

/**
 * Reads logs. Every method throws RunNotFound and AttemptNotFound, LogCursorInvalid for an unusable cursor, and
 * InvalidRequest for parameters that exclude each other.
 */
@Injectable()
export class LogService {
  readonly #topics: Topics;

  constructor(
    private readonly reader: LogReader,
    notices: CommitNotices,
  ) {
    this.#topics = notices.topicsOf('logs');
  }

  async getPage(request: LogRequest): Promise<LogPage> {
    return this.reader.read(this.#rangeOf(request));
  }

  /** Reads a page, and waits for lines while it is empty, until the log is complete, the time is over or the signal aborts. */
  async awaitPage(request: LogRequest, forMs: number, signal: AbortSignal): Promise<LogPage> {
    const deadline = monotonicMs() + forMs;
    const range = this.#rangeOf(request);
    let page = await this.reader.read(range);
    if (!mayGrow(page)) return page;
    const topic = this.#topics.subscribe(topicOf(page));
    try {
      for (;;) {
        const { version } = topic;
        page = await this.reader.read(rangeBehind(page, range));
        const left = deadline - monotonicMs();
        if (!mayGrow(page) || left <= 0) return page;
        if (!(await topic.waitForChange(page.nextChunk, version, { signal, forMs: left }))) return page;
      }
    } finally {
      this.#topics.unsubscribe(topic);
    }
  }

  /**
   * Sends all entries after the cursor and then every new one, until the log is complete, the run is removed or the
   * signal aborts. Retries while the database is unavailable. A client that connects again after the end is told to stop. Errors before `stream.begin()` can still be answered.
   */
  async stream(
    request: LogRequest & { readonly isResumed: boolean },
    stream: EventStreamResponse,
    signal: AbortSignal,
  ): Promise<void> {
    const { streamLines, streamBytes } = LOG_LIMITS;
    const asked = this.#rangeOf({ ...request, limit: streamLines });
    const range = { ...asked, maxPieces: streamLines, maxBytes: streamBytes };
    let page: LogPage | undefined = await this.reader.read(range);
    if (request.isResumed && page.isComplete && page.entries.length === 0) return stream.noContent();
    stream.begin();
    const topic = this.#topics.subscribe(topicOf(page));
    try {
      // The first page was read before the subscription: the second one is read without waiting.
      let version: number | undefined;
      while (page !== undefined && !signal.aborted) {
        if (page.entries.length > 0) await stream.send(toFrames(page));
        if (page.isComplete) return await stream.send(toEndFrame(page));
        if (!page.hasMore && version !== undefined) {
          await topic.waitForChange(page.nextChunk, version, { signal });
        }
        ({ version } = topic);
        const next = rangeBehind(page, range);
        page = await retryWhileUnavailable(() => this.reader.read(next), LOG_LIMITS, signal);
      }
    } catch (error) {
      // Retention has removed the run: ends the stream.
      if (!(error instanceof RunNotFound)) throw error;
    } finally {
      this.#topics.unsubscribe(topic);
    }
  }

  #rangeOf({ runId, callerId, attempt, after, before, tail, limit, contains }: LogRequest): LogRange {
    if (!isRunId(runId)) throw new RunNotFound(runId);
    const places = Object.entries({ tail, before, after }).filter(([, value]) => value !== undefined);
    const [first, ...others] = places.map(([name]) => name);
    if (others.length > 0) {
      throw new InvalidRequest(VALIDATION_FAILED, [
        `${first} must not be given together with ${others.join(' and ')}`,
      ]);
    }
    return {
      runId,
      attempt,
      after: this.reader.readCursor(runId, attempt, after),
      before: this.reader.readCursor(runId, attempt, before),
      fromEnd: tail !== undefined,
      limit: Math.min(tail ?? Infinity, limit ?? tail ?? DEFAULT_LIMIT),
      maxPieces: LOG_LIMITS.pagePieces,
      maxBytes: LOG_LIMITS.pageBytes,
      contains,
      callerId,
    };
  }
}

/** Whether a page is empty now and may not be later. */
function mayGrow({ entries, hasMore, isComplete }: LogPage): boolean {
  return entries.length === 0 && !hasMore && !isComplete;
}

function rangeBehind({ attempt, end }: LogPage, range: LogRange): LogRange {
  return { ...range, attempt, after: { attempt, position: end } };
}
