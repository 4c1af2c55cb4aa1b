import type { ServerResponse } from 'node:http';

const COMMENT = ':\n\n';

/** What a stream asks of its response beside writing. */
export interface EventStreamOptions {
  /** A stream that takes nothing of what is buffered for this long is cut off. */
  readonly stallMs: number;
  /** Time between two comments. */
  readonly commentMs: number;
  /** Ends the waiting for a slow reader. */
  readonly signal: AbortSignal;
  /** Told when the reader is cut off. */
  readonly onStall: () => void;
}

/** Server-Sent Events on an HTTP answer: what is written waits for the reader, but not for ever. */
export class EventStreamResponse {
  #comments: NodeJS.Timeout | undefined;

  constructor(
    private readonly response: ServerResponse,
    private readonly options: EventStreamOptions,
  ) {}

  /** Sends the head of the answer; from here on errors cannot be told any more. */
  begin(): void {
    const { response, options } = this;
    response.statusCode = 200;
    response.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
    response.setHeader('Cache-Control', 'no-cache');
    response.setHeader('X-Accel-Buffering', 'no');
    response.flushHeaders();
    response.once('close', () => clearInterval(this.#comments));
    this.#comments = setInterval(() => {
      // A reader that does not even take events gets no comments on top.
      if (!response.writableNeedDrain && response.writable) response.write(COMMENT);
    }, options.commentMs);
  }

  /**
   * Writes whole events. Resolves when the reader has taken them, when the stream is to end, or when the reader was
   * cut off because it took too long.
   */
  async send(frames: Buffer): Promise<void> {
    if (this.options.signal.aborted || this.response.write(frames)) return;
    await this.#drained();
  }

  /** Ends the answer; one that is stuck is broken off, since its reader would hold it open. */
  end(): void {
    clearInterval(this.#comments);
    if (this.response.writableNeedDrain) this.response.destroy();
    else this.response.end();
  }

  #drained(): Promise<void> {
    const { response, options } = this;
    return new Promise((resolve) => {
      const settle = (): void => {
        clearTimeout(timer);
        response.off('drain', settle);
        options.signal.removeEventListener('abort', settle);
        resolve();
      };
      const timer = setTimeout(() => {
        options.onStall();
        response.destroy();
        settle();
      }, options.stallMs);
      response.on('drain', settle);
      options.signal.addEventListener('abort', settle);
    });
  }
}
