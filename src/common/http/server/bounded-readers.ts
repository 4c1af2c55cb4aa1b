import type { ServerResponse } from 'node:http';
import { currentSpan } from '@longshore/common/tracing/current-span';
import type { Counter, Gauge } from 'prom-client';
import { DomainError } from '../errors/domain-error.js';
import { HELD, type HeldRequests } from './held-requests.js';

/** Limits of the long polls and event streams of one kind, per process. */
export interface ReaderLimits {
  /** Open streams and waiting polls together. */
  readonly maxReaders: number;
  /** Bytes of text in one page; at least one entry. */
  readonly pageBytes: number;
  /** Bytes of text written to a stream at once, and so buffered for a slow reader; at least one entry. */
  readonly streamBytes: number;
  /** A stream whose reader accepts nothing for this long is closed. */
  readonly stallMs: number;
  /** Interval of the comments on a stream. */
  readonly commentMs: number;
  /** First pause after a database error on an open stream; it doubles up to the longest. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
}

export const READER_LIMITS: ReaderLimits = {
  maxReaders: 5_000,
  pageBytes: 4 * 1024 * 1024,
  streamBytes: 256 * 1024,
  stallMs: 60_000,
  commentMs: 15_000,
  retryMs: 500,
  longestRetryMs: 10_000,
};

/** The process has as many waiting readers as it may. */
export class TooManyReaders extends DomainError {
  readonly kind = 'unavailable';

  constructor(detail: string) {
    super(detail, { retryAfterSeconds: 5 });
  }
}

/** Serves long polls and event streams, a bounded number at a time. Both methods throw TooManyReaders above it. */
export class BoundedReaders {
  #open = 0;

  constructor(
    private readonly requests: HeldRequests,
    private readonly limits: ReaderLimits,
    private readonly metrics: { readonly openReaders: Gauge; readonly stalledStreams: Counter },
    private readonly refusal: string,
  ) {}

  /** Runs a long poll. Its signal aborts when the client disconnects or the service stops. */
  async hold<T>(response: ServerResponse, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.#open >= this.limits.maxReaders) throw new TooManyReaders(this.refusal);
    const request = this.requests.open(response);
    currentSpan()?.set(HELD);
    this.#count(1);
    try {
      return await work(request.signal);
    } finally {
      request.close();
      this.#count(-1);
    }
  }

  /** Runs an event stream, and ends it after the work. */
  stream(
    response: ServerResponse,
    work: (stream: EventStreamResponse, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    return this.hold(response, async (signal) => {
      const onStall = (): void => this.metrics.stalledStreams.inc();
      const stream = new EventStreamResponse(response, this.limits, signal, onStall);
      await work(stream, signal);
      stream.end();
    });
  }

  #count(change: number): void {
    this.#open += change;
    this.metrics.openReaders.set(this.#open);
  }
}

/** A response of Server-Sent Events; writing waits for the client, up to a limit. */
export class EventStreamResponse {
  #comments: NodeJS.Timeout | undefined;

  constructor(
    private readonly response: ServerResponse,
    private readonly limits: ReaderLimits,
    private readonly signal: AbortSignal,
    private readonly onStall: () => void,
  ) {}

  /** Sends the head of the response; after it no error status can be sent. */
  begin(): void {
    const { response } = this;
    response.statusCode = 200;
    response.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
    response.setHeader('Cache-Control', 'no-cache');
    response.setHeader('X-Accel-Buffering', 'no');
    response.flushHeaders();
    response.once('close', () => clearInterval(this.#comments));
    this.#comments = setInterval(() => {
      if (!response.writableNeedDrain && response.writable) response.write(':\n\n');
    }, this.limits.commentMs);
  }

  /** Writes whole events. Resolves when the client has read them or is disconnected, or when the signal aborts. */
  async send(frames: Buffer): Promise<void> {
    const { response, signal } = this;
    if (signal.aborted || response.write(frames)) return;
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        clearTimeout(timer);
        response.off('drain', settle);
        signal.removeEventListener('abort', settle);
        resolve();
      };
      const timer = setTimeout(() => {
        this.onStall();
        response.destroy();
        settle();
      }, this.limits.stallMs);
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
