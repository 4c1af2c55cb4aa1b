import type { ServerResponse } from 'node:http';

const COMMENT = ':\n\n';

export interface EventStreamOptions {
  /** A client that reads nothing of the buffered data for this long is disconnected. */
  readonly stallMs: number;
  /** Time between two comments. */
  readonly commentMs: number;
  /** Ends the wait for a slow client. */
  readonly signal: AbortSignal;
  /** Called when a client is disconnected. */
  readonly onStall: () => void;
}

/** A response of Server-Sent Events; writing waits for the client, up to a limit. */
export class EventStreamResponse {
  #comments: NodeJS.Timeout | undefined;

  constructor(
    private readonly response: ServerResponse,
    private readonly options: EventStreamOptions,
  ) {}

  /** Sends the head of the response; after it no error status can be sent. */
  begin(): void {
    const { response, options } = this;
    response.statusCode = 200;
    response.setHeader('Content-Type', 'text/event-stream; charset=utf-8');
    response.setHeader('Cache-Control', 'no-cache');
    response.setHeader('X-Accel-Buffering', 'no');
    response.flushHeaders();
    response.once('close', () => clearInterval(this.#comments));
    this.#comments = setInterval(() => {
      if (!response.writableNeedDrain && response.writable) response.write(COMMENT);
    }, options.commentMs);
  }

  /** Writes whole events. Resolves when the client has read them or is disconnected, or when the signal aborts. */
  async send(frames: Buffer): Promise<void> {
    const { response, options } = this;
    if (options.signal.aborted || response.write(frames)) return;
    await new Promise<void>((resolve) => {
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

  /** Ends the response; destroys one whose client reads too slowly to see its end. */
  end(): void {
    clearInterval(this.#comments);
    if (this.response.writableNeedDrain) this.response.destroy();
    else this.response.end();
  }
}
