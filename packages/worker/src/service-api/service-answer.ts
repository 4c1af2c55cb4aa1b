import { isJsonObject } from '@longshore/common/json/json-value';
import { errorText } from '../execution/failure-message.js';
import type { Answer, Refusal } from './service-api.js';
import { Transfer, type TransferLimits } from './transfer.js';

const MAX_DETAIL = 1000;

/** The status of an answer to `If-None-Match`. */
export const NOT_MODIFIED = 304;

/** 4xx answers that allow a retry. */
const RETRYABLE: ReadonlySet<number> = new Set([408, 425, 429]);

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
    if (!response.ok && response.status !== NOT_MODIFIED) return answerOf(error, response);
    const value = read(data, response);
    if (value !== null) return { kind: 'ok', value };
    return { kind: 'unreachable', reason: `HTTP ${response.status} with a body that is not the service's` };
  } catch (error) {
    return { kind: 'unreachable', reason: reasonOf(error) };
  } finally {
    transfer.end();
  }
}

function answerOf(error: unknown, { status, headers }: Response): Answer<never> {
  const detail = detailOf(error, headers);
  if (detail !== null && status >= 400 && status < 500 && !RETRYABLE.has(status))
    return { kind: 'refused', status, detail };
  const retryAfterSeconds = Number(headers.get('Retry-After') ?? Number.NaN);
  const reason = `HTTP ${status}${detail === null ? " that is not the service's: a proxy, or SERVICE_URL is wrong" : `: ${detail}`}`;
  return retryAfterSeconds >= 0
    ? { kind: 'unreachable', reason, status, retryAfterSeconds }
    : { kind: 'unreachable', reason, status };
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
  return errorText(cause ?? error);
}

/** Whether the key is bound to workers with other ids. */
export function isIdRefusal({ status, detail }: Refusal): boolean {
  return status === 403 && detail.startsWith('API key is not bound to worker');
}

/** Whether the service refuses the content, so that it would refuse it from any sender. */
export function isContentRefused({ status }: Refusal): boolean {
  return [400, 413, 415, 422].includes(status);
}

/** Whether a refused event means that the run has ended or is assigned to another worker. */
export function isRunLost({ status, detail }: Refusal): boolean {
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
