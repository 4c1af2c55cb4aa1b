import { isJsonObject } from '@longshore/common/json/json-value';
import { errorText } from '@longshore/common/errors';
import { ownCaHint } from '@longshore/common/own-ca';
import type { Answer, Refusal } from './service-api.js';
import { stringifyJson } from '@longshore/common/json/json-text';

const MAX_DETAIL = 1000;

/** The status of an answer to `If-None-Match`. */
export const NOT_MODIFIED = 304;

/** 4xx answers that allow a retry. */
const RETRYABLE: ReadonlySet<number> = new Set([408, 425, 429]);

/** 4xx answers of a proxy that say nothing of the request's content: a login or a route is missing. */
const OF_ROUTE: ReadonlySet<number> = new Set([401, 404, 407]);

interface ClientResult<T> {
  readonly data?: T;
  readonly error?: unknown;
  readonly response: Response;
}

/** Options of every request of the client. */
interface CallInit {
  readonly signal: AbortSignal;
  readonly fetch: Transfer['fetch'];
  readonly bodySerializer: Transfer['serialize'];
  /** A redirect could send the API key elsewhere. */
  readonly redirect: 'manual';
}

/**
 * Sends a request and decides what its answer means. Only what has a documented form of the service is an answer; everything
 * else is the network between: `unreachable`.
 * @param read parses the body of an answer; null: the body is not the service's
 */
export async function ask<T>(
  limits: TransferLimits,
  call: (init: CallInit) => Promise<ClientResult<unknown>>,
  read: (data: unknown, response: Response) => T | null,
): Promise<Answer<T>> {
  const transfer = new Transfer(limits);
  const { signal, fetch, serialize: bodySerializer } = transfer;
  try {
    const { data, error, response } = await call({ signal, fetch, bodySerializer, redirect: 'manual' });
    if (!response.ok && response.status !== NOT_MODIFIED)
      return answerOf(error, response, transfer.sentBytes);
    const value = read(data, response);
    if (value !== null) return { kind: 'ok', value };
    return { kind: 'unreachable', reason: `HTTP ${response.status} with a body that is not the service's` };
  } catch (error) {
    return { kind: 'unreachable', reason: reasonOf(error) };
  } finally {
    transfer.end();
  }
}

function answerOf(error: unknown, { status, headers }: Response, sentBytes: number): Answer<never> {
  const detail = detailOf(error, headers);
  const isRefusal = status >= 400 && status < 500 && !RETRYABLE.has(status);
  if (detail !== null && isRefusal) return { kind: 'refused', status, detail };
  const retryAfterSeconds = Number(headers.get('Retry-After') ?? Number.NaN);
  const reason = `HTTP ${status}${detail === null ? " that is not the service's: a proxy, or SERVICE_URL is wrong" : `: ${detail}`}`;
  return {
    kind: 'unreachable',
    reason,
    status,
    ...(retryAfterSeconds >= 0 && { retryAfterSeconds }),
    ...(isRefusal && sentBytes > 0 && !OF_ROUTE.has(status) && { refusedBytes: sentBytes }),
  };
}

/** What an error of the service says, with its list of problems; null: it is not in the service's error form. */
function detailOf(error: unknown, headers: Headers): string | null {
  const [mediaType = ''] = (headers.get('Content-Type') ?? '').split(';');
  if (mediaType.trim().toLowerCase() !== 'application/json' || !isJsonObject(error)) return null;
  const { detail, errors = [] } = error;
  const isForm = Array.isArray(errors) && errors.every((line) => typeof line === 'string');
  if (!isForm || typeof detail !== 'string' || detail === '') return null;
  return (errors.length === 0 ? detail : `${detail}: ${errors.join('; ')}`).slice(0, MAX_DETAIL);
}

/** fetch reports the reason in the cause of its error. */
function reasonOf(error: unknown): string {
  if (error instanceof Error && error.name === 'TimeoutError') return error.message;
  if (error instanceof Error && error.name === 'AbortError') return 'aborted';
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof AggregateError) return cause.errors.map(errorText).join('; ');
  return `${errorText(cause ?? error)}${ownCaHint(cause)}`;
}

/** Whether the key is bound to workers with other ids. */
export function isIdRefusal({ status, detail }: Refusal): boolean {
  return status === 403 && detail.startsWith('API key is not bound to worker');
}

/** Whether the service, or a proxy in front of it, refuses the content, so that it would refuse it from any sender. */
export function isContentRefused({ status, isByProxy }: Refusal): boolean {
  return isByProxy === true || [400, 413, 415, 422].includes(status);
}

/** Whether a refused event means that the run has ended or is assigned to another worker. */
export function isRunLost({ status, detail, isByProxy }: Refusal): boolean {
  if (isByProxy === true) return false;
  if (status === 409) return !isKeyUsed({ status, detail });
  return status === 400 && detail.startsWith('Run is already in terminal state');
}

/** Whether the key of the event was used for another one: another process of this worker has reported the same with other times. */
export function isKeyUsed({ status, detail }: Pick<Refusal, 'status' | 'detail'>): boolean {
  return status === 409 && detail.startsWith('Idempotency-Key');
}

/** Whether the service has no such run: another 404 may be of a route that an older service does not have. */
export function isRunUnknown({ status, detail }: Refusal): boolean {
  return status === 404 && detail.startsWith('OpRun ');
}

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
class Transfer {
  /** Aborts with a TimeoutError at a limit. */
  readonly signal: AbortSignal;
  /** Bytes of the request's body. */
  sentBytes = 0;
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
    this.sentBytes = Buffer.byteLength(text);
    const uploadMs = Math.ceil((this.sentBytes / MIN_BYTES_PER_SECOND) * 1000);
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
