import { Inject, Injectable } from '@nestjs/common';
import { InvalidRequest } from '../common/http/errors/domain-error.js';
import type { EventStreamResponse } from '../common/http/server/event-stream-response.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { retryWhileUnavailable } from '../database/unavailable.js';
import { RunNotFound } from '../runs/run.errors.js';
import { isRunId } from '../runs/storage/run.reader.js';
import { LOG_LIMITS, type LogLimits } from './log-limits.js';
import { LogNotifications, topicOf } from './log-notifications.js';
import { LogPage, type LogStretch } from './log-page.js';
import { LogReader, type LogWish } from './log-reader.js';

const DEFAULT_LIMIT = 1000;

const END_FRAME = Buffer.from('event: end\ndata: {}\n\n');

/** Which log, and where in it. */
export interface LogPlace {
  readonly runId: string;
  readonly attempt: number | undefined;
  /** Cursor; undefined for the first line. */
  readonly after: string | undefined;
}

/** What of it. */
export interface LogChoice {
  readonly limit?: number;
  readonly contains?: string;
  /** Cursor: those in front of it, the nearest ones. */
  readonly before?: string;
  /** The newest so many lines. */
  readonly tail?: number;
}

/**
 * Reading logs: pages, long polls and streams. Every method throws RunNotFound and AttemptNotFound, and LogCursorInvalid
 * for a cursor that cannot be continued from.
 */
@Injectable()
export class LogService {
  constructor(
    private readonly reader: LogReader,
    private readonly notifications: LogNotifications,
    @Inject(LOG_LIMITS) private readonly limits: LogLimits,
  ) {}

  /** What is there now, which may be nothing. @throws InvalidRequest when the choice makes no sense */
  async getPage(place: LogPlace, choice: LogChoice): Promise<LogPage> {
    return new LogPage(await this.reader.read(this.#wishOf(place, choice)));
  }

  /** The same, but waits for lines when there are none, until the log is complete, the time is over or the signal aborts. */
  async awaitPage(place: LogPlace, choice: LogChoice, forMs: number, signal: AbortSignal): Promise<LogPage> {
    const deadline = performance.now() + forMs;
    let wish = this.#wishOf(place, choice);
    let stretch = await this.reader.read(wish);
    if (!isToBeAwaited(stretch)) return new LogPage(stretch);
    const topic = this.notifications.subscribe(topicOf(stretch));
    try {
      for (;;) {
        const { version } = topic;
        wish = { ...wish, attempt: stretch.attempt, ...placeBehind(stretch) };
        stretch = await this.reader.read(wish);
        const left = deadline - performance.now();
        if (!isToBeAwaited(stretch) || left <= 0) return new LogPage(stretch);
        if (!(await topic.waitForChange(stretch.nextChunk, version, { signal, forMs: left })))
          return new LogPage(stretch);
      }
    } finally {
      this.notifications.unsubscribe(topic);
    }
  }

  /**
   * Sends everything behind the place and then what is added, in order and without a hole, until the log is complete,
   * the run is removed or the signal aborts. Outlasts the database being away.
   * @throws what stands in the way of beginning, before `begin` is called
   */
  async stream(place: LogPlace, stream: EventStreamResponse, signal: AbortSignal): Promise<void> {
    const { streamLines, streamBytes } = this.limits;
    const wish = { ...this.#wishOf(place, { limit: streamLines }), maxBytes: streamBytes };
    const first = await this.reader.read(wish);
    stream.begin();
    const topic = this.notifications.subscribe(topicOf(first));
    try {
      let stretch: LogStretch | undefined = first;
      // What was added before the watch began is not announced to it: the first time it looks again at once.
      let version: number | undefined;
      while (stretch !== undefined && !signal.aborted) {
        if (stretch.steps.length > 0) await stream.send(new LogPage(stretch).frames);
        if (stretch.isComplete) {
          await stream.send(END_FRAME);
          return;
        }
        if (!stretch.hasMore && version !== undefined) {
          await topic.waitForChange(stretch.nextChunk, version, { signal });
        }
        ({ version } = topic);
        stretch = await this.#goOn({ ...wish, ...placeBehind(stretch) }, signal);
      }
    } finally {
      this.notifications.unsubscribe(topic);
    }
  }

  /** The next stretch of an open stream; undefined when there will be none. */
  async #goOn(wish: LogWish, signal: AbortSignal): Promise<LogStretch | undefined> {
    try {
      return await retryWhileUnavailable(() => this.reader.read(wish), this.limits, signal);
    } catch (error) {
      if (error instanceof RunNotFound) return undefined;
      throw error;
    }
  }

  #wishOf({ runId, attempt, after }: LogPlace, { limit, contains, before, tail }: LogChoice): LogWish {
    if (!isRunId(runId)) throw new RunNotFound(runId);
    const places = Object.entries({ tail, before, after }).filter(([, value]) => value !== undefined);
    if (places.length > 1) {
      const names = places.map(([name]) => name);
      throw new InvalidRequest(VALIDATION_FAILED, [
        `${names[0]} must not be given together with ${names.slice(1).join(' and ')}`,
      ]);
    }
    return {
      runId,
      attempt,
      after: after === undefined ? undefined : this.reader.placeOf(runId, attempt, after),
      before: before === undefined ? undefined : this.reader.placeOf(runId, attempt, before),
      limit: Math.min(tail ?? Infinity, limit ?? tail ?? DEFAULT_LIMIT),
      maxBytes: this.limits.pageBytes,
      contains,
      fromEnd: tail !== undefined,
    };
  }
}

/** Whether a wait may bring what the reader wants. */
function isToBeAwaited({ steps, hasMore, isComplete }: LogStretch): boolean {
  return steps.length === 0 && !hasMore && !isComplete;
}

function placeBehind({ attempt, end }: LogStretch): Pick<LogWish, 'after'> {
  return { after: { attempt, point: end } };
}
