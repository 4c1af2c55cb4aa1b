import { currentSpan } from '@longshore/common/tracing/current-span';
import type { Response } from 'express';
import type { Counter, Gauge } from 'prom-client';
import type { Settings } from '../../../config/settings.js';
import { Quota } from '../../quotas/quota.js';
import { HELD, type HeldRequests } from './held-requests.js';

/** Limits of the long polls and event streams of one kind, per process. */
export const READER_LIMITS = {
  /** Bytes of text in one page; at least one entry. */
  pageBytes: 4 * 1024 * 1024,
  /** Bytes of text written to a stream at once, and so buffered for a slow reader; at least one entry. */
  streamBytes: 256 * 1024,
  /** Interval of the comments on a stream. */
  commentMs: 15_000,
  /** First pause after a database error on an open stream; it doubles up to the longest. */
  retryMs: 500,
  longestRetryMs: 10_000,
};
type ReaderLimits = Readonly<typeof READER_LIMITS>;

/** Serves long polls and event streams, within a quota. Both methods throw OverLimit. */
export class BoundedReaders {
  readonly #quota: Quota;

  /** @param what the kind of polls and streams, for refusals */
  constructor(
    private readonly requests: HeldRequests,
    { readers, readersPerKey }: Settings,
    what: string,
    private readonly limits: ReaderLimits = READER_LIMITS,
    private readonly metrics: { readonly openReaders?: Gauge; readonly stalledStreams?: Counter } = {},
  ) {
    this.#quota = new Quota({
      what: `streams and waiting polls of ${what}`,
      setting: 'SERVICE_READERS',
      total: readers,
      perKey: readersPerKey,
    });
  }

  /** Runs a long poll. Its signal aborts when the client disconnects or the service stops. */
  async hold<T>(response: Response, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const request = this.requests.open(response, this.#quota);
    currentSpan()?.set(HELD);
    this.metrics.openReaders?.set(this.#quota.held);
    try {
      return await work(request.signal);
    } finally {
      request.close();
      this.metrics.openReaders?.set(this.#quota.held);
    }
  }

  /** Runs an event stream, and ends it after the work. */
  stream(
    response: Response,
    work: (stream: EventStreamResponse, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    return this.hold(response, async (signal) => {
      const onStall = (): void => this.metrics.stalledStreams?.inc();
      const stream = new EventStreamResponse(response, this.limits, signal, onStall);
      await work(stream, signal);
      stream.end();
    });
  }
}

/** A response of Server-Sent Events; writing waits for the client. The server closes it when the client reads nothing. */
export class EventStreamResponse {
  #comments: NodeJS.Timeout | undefined;

  constructor(
    private readonly response: Response,
    private readonly limits: ReaderLimits,
    private readonly signal: AbortSignal,
    private readonly onStall: () => void,
  ) {}

  /** Sends the head of the response; after it no error status can be sent. */
  begin(): void {
    const { response } = this;
    response.statusCode = 200;
    response.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
    // A proxy that compresses holds events back until it has a block of them. Some look at the first header, some at the second.
    response.setHeader('Content-Encoding', 'identity');
    response.setHeader('Cache-Control', 'no-cache, no-transform');
    response.setHeader('X-Accel-Buffering', 'no');
    response.flushHeaders();
    response.once('close', () => clearInterval(this.#comments));
    // The connection has made no progress for SERVICE_WRITE_TIMEOUT, and is closed after this event.
    response.on('timeout', () => {
      if (response.writableNeedDrain) this.onStall();
    });
    this.#comments = setInterval(() => {
      if (!response.writableNeedDrain && response.writable) response.write(':\n\n');
    }, this.limits.commentMs);
  }

  /** Answers 204: nothing follows what the client has, and an EventSource does not connect again. */
  noContent(): void {
    this.response.statusCode = 204;
  }

  /** Writes whole events. Resolves when the client has read them or is disconnected, or when the signal aborts. */
  async send(frames: Buffer): Promise<void> {
    const { response, signal } = this;
    if (signal.aborted || response.write(frames)) return;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        response.off('drain', settle);
        signal.removeEventListener('abort', settle);
        resolve();
      };
      response.on('drain', settle);
      signal.addEventListener('abort', settle);
    });
  }

  /** Ends the response; destroys one whose client reads too slowly to see its end. */
  end(): void {
    clearInterval(this.#comments);
    if (this.response.writableNeedDrain) this.response.destroy();
    else this.response.end();
  }
}
