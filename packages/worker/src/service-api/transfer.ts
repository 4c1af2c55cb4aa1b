import { stringifyJson } from '@longshore/common/json/json-text';

/** The slowest upload that is waited for, in bytes per second; the service has the same limit. */
const MIN_BYTES_PER_SECOND = 4096;

/** Longest pause between two pieces of an answer, in milliseconds. */
const SILENCE_MS = 30_000;

/** Limits of one request. */
export interface TransferLimits {
  /** Until the answer begins, in milliseconds; a request body adds the time that the slowest upload of its size takes. */
  readonly timeoutMs: number;
  /** Whether `timeoutMs` is the limit of the whole request. */
  readonly isTotal?: boolean;
  /** Limit of the answer's body, decompressed, in bytes: SERVICE_WORKER_MAX_ANSWER_BYTES. */
  readonly maxBytes: number;
  /** Sends the request. */
  readonly fetch: (request: Request) => Promise<Response>;
  /** Aborts the request. */
  readonly aborted?: AbortSignal | undefined;
  /** Called when a 2xx begins. */
  readonly onHeaders?: (headers: Headers) => void;
}

/**
 * Limits of one request on missing progress: a large body on a slow line takes its time. The system buffers what is sent,
 * so that the progress of an upload is not visible: its limit is a minimum rate.
 */
export class Transfer {
  /** Aborts with a TimeoutError at a limit. */
  readonly signal: AbortSignal;
  private readonly controller = new AbortController();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly limits: TransferLimits) {
    const { signal } = this.controller;
    const { aborted, timeoutMs } = limits;
    this.signal = aborted === undefined ? signal : AbortSignal.any([signal, aborted]);
    this.limit(timeoutMs, `no answer within ${timeoutMs} ms`);
  }

  /** Serializes the request's body. */
  readonly serialize = (body: unknown): string => {
    const text = stringifyJson(body);
    const { timeoutMs, isTotal = false } = this.limits;
    const uploadMs = Math.ceil((Buffer.byteLength(text) / MIN_BYTES_PER_SECOND) * 1000);
    if (!isTotal) this.limit(timeoutMs + uploadMs, `no answer within ${timeoutMs + uploadMs} ms`);
    return text;
  };

  /** Sends the request. Its answer fails while it is read if it is silent for too long or larger than the limit. */
  readonly fetch = async (request: Request): Promise<Response> => {
    const response = await this.limits.fetch(request);
    this.progress();
    const { body, status, statusText, headers } = response;
    if (response.ok) this.limits.onHeaders?.(headers);
    if (body === null) return response;
    return new Response(body.pipeThrough(this.watch(), { signal: this.signal }), {
      status,
      statusText,
      headers,
    });
  };

  /** Call it when the answer is read. */
  end(): void {
    clearTimeout(this.timer);
  }

  private watch(): TransformStream<Uint8Array, Uint8Array> {
    const { maxBytes } = this.limits;
    let length = 0;
    return new TransformStream({
      transform: (bytes, controller) => {
        length += bytes.length;
        if (length > maxBytes)
          throw new Error(`the answer is larger than SERVICE_WORKER_MAX_ANSWER_BYTES (${maxBytes})`);
        this.progress();
        controller.enqueue(bytes);
      },
    });
  }

  private progress(): void {
    if (this.limits.isTotal !== true) this.limit(SILENCE_MS, `no more of the answer within ${SILENCE_MS} ms`);
  }

  private limit(ms: number, why: string): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.controller.abort(new DOMException(why, 'TimeoutError')), ms);
    this.timer.unref();
  }
}
