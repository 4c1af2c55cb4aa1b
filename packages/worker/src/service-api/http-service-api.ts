import type { LongshoreClient, Schemas } from '@longshore/client';
import { isJsonObject } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { errorText } from '../execution/failure-message.js';
import { Semaphore } from '@longshore/common/semaphore';
import { readClaimedRun, readLostRun, readRun, readSecrets, readTimeline } from './read-answers.js';
import { RunEtagCache } from './run-etag-cache.js';
import type {
  Answer,
  ChunkAddress,
  ClaimCall,
  ClaimedRun,
  Constraints,
  HeartbeatAnswer,
  HeartbeatCall,
  HeartbeatReport,
  LogChunk,
  LogPosition,
  Reporter,
  RunEvent,
  RunHolder,
  RunSecrets,
  RunView,
  ServiceApi,
  TimelineEntry,
} from './service-api.js';

/** Timeouts of requests, in milliseconds. */
const GET_RUN_MS = 10_000;
const GET_TIMELINE_MS = 30_000;
const GET_SECRETS_MS = 10_000;
/** Short, because the end of the worker waits for it. */
const REMOVE_WORKER_MS = 3_000;
/** An event may carry outputs of many megabytes. */
const POST_EVENT_MS = 30_000;
const PUT_LOG_MS = 30_000;

/** Timelines of many megabytes that are read at a time: a launcher that starts may adopt a thousand jobs. */
const TIMELINES_AT_ONCE = 8;

const MAX_DETAIL = 1000;

const NOT_MODIFIED = 304;

/** 4xx answers that allow a retry. */
const RETRYABLE: ReadonlySet<number> = new Set([408, 425, 429]);

interface ClientResult<T> {
  readonly data?: T;
  readonly error?: unknown;
  readonly response: Response;
}

interface CallInit {
  readonly signal: AbortSignal;
  /** A redirect could send the API key elsewhere. */
  readonly redirect: 'manual';
}

/** The service over HTTP. */
export class HttpServiceApi implements ServiceApi {
  private readonly seen = new RunEtagCache();
  private readonly timelines = new Semaphore(TIMELINES_AT_ONCE);

  constructor(private readonly client: LongshoreClient) {}

  heartbeat(
    { workerId, resources, load, tags, capabilities, notClaiming, runningOps }: HeartbeatReport,
    { waitSeconds, timeoutMs, signal }: HeartbeatCall,
  ): Promise<Answer<HeartbeatAnswer>> {
    // An older service refuses an unknown query parameter.
    const query: { wait?: number } = waitSeconds > 0 ? { wait: waitSeconds } : {};
    const body: Schemas['HeartbeatRequest'] = {
      worker_id: workerId,
      resources: {
        cpu_cores: resources.cpuCores,
        ram_mb: resources.ramMb,
        gpus: resources.gpus.map(({ id, vramMb, tags: labels }) => ({
          id,
          vram_mb: vramMb,
          tags: [...labels],
        })),
      },
      tags: [...tags],
      capabilities: [...capabilities],
      ...(load === null ? {} : { engine: load }),
      ...(notClaiming.length === 0 ? {} : { not_claiming: [...notClaiming] }),
      running_ops: runningOps.map(({ id, image, inputs, constraints, attempt }) => ({
        id,
        image,
        inputs,
        constraints: toWireConstraints(constraints),
        ...(attempt === null ? {} : { attempt }),
      })),
    };
    return send(
      timeoutMs,
      (init) => this.client.POST('/workers/heartbeat', { params: { query }, body, ...init }),
      (worker, response) => {
        if (!isJsonObject(worker) || worker['id'] !== workerId) return null;
        const lost = worker['lost_ops'];
        return {
          workerTimeoutSeconds: readPositive(response.headers, 'X-Worker-Timeout'),
          maxBodyBytes: readPositive(response.headers, 'X-Max-Body-Bytes'),
          lostRuns: Array.isArray(lost) ? lost.flatMap(readLostRun) : null,
        };
      },
      signal,
    );
  }

  claim(
    workerId: string,
    idempotencyKey: string,
    { max, waitSeconds, timeoutMs, signal }: ClaimCall,
  ): Promise<Answer<readonly ClaimedRun[]>> {
    const headers = { 'Idempotency-Key': idempotencyKey };
    // An older service refuses an unknown query parameter.
    const query: { wait?: number; max?: number } = {
      ...(waitSeconds > 0 && { wait: waitSeconds }),
      ...(max !== undefined && { max }),
    };
    const params = { path: { worker_id: workerId }, query };
    return send(
      timeoutMs,
      (init) => this.client.POST('/workers/{worker_id}/claim', { params, headers, ...init }),
      (answer) => {
        const ops = isJsonObject(answer) ? answer['ops'] : null;
        if (!Array.isArray(ops)) return null;
        const runs = ops.map(readClaimedRun);
        return runs.every((run) => run !== null) ? runs : null;
      },
      signal,
    );
  }

  async removeWorker(workerId: string): Promise<Answer<null>> {
    const params = { path: { worker_id: workerId } };
    const answer = await send(
      REMOVE_WORKER_MS,
      (init) => this.client.DELETE('/workers/{worker_id}', { params, ...init }),
      (_, { status }) => status === 204 || null,
    );
    return answer.kind === 'ok' ? { kind: 'ok', value: null } : answer;
  }

  getRun(runId: string): Promise<Answer<RunView>> {
    const params = { path: { id: runId }, query: { include_events: false } };
    const known = this.seen.get(runId);
    const headers = known === undefined ? {} : { 'If-None-Match': known.etag };
    return send(
      GET_RUN_MS,
      (init) => this.client.GET('/runs/{id}', { params, headers, ...init }),
      (run, response) => {
        if (response.status === NOT_MODIFIED) return known?.view ?? null;
        const view = readRun(run, runId);
        this.seen.keep(runId, view, response.headers);
        return view;
      },
    );
  }

  getTimeline(runId: string): Promise<Answer<readonly TimelineEntry[]>> {
    const params = { path: { id: runId }, query: { include_events: true } };
    return this.timelines.run(() =>
      send(
        GET_TIMELINE_MS,
        (init) => this.client.GET('/runs/{id}', { params, ...init }),
        (run) => readTimeline(run, runId),
      ),
    );
  }

  getSecrets(runId: string, { workerId, attempt }: RunHolder): Promise<Answer<RunSecrets>> {
    const params = {
      path: { id: runId },
      // A service that knows secrets gives the attempt with every claim.
      header: { 'X-Worker-Id': workerId, 'X-Run-Attempt': attempt ?? 1 },
    };
    return send(
      GET_SECRETS_MS,
      (init) => this.client.GET('/runs/{id}/secrets', { params, ...init }),
      readSecrets,
    );
  }

  async postEvent(
    runId: string,
    { type, msg, payload }: RunEvent,
    { workerId, attempt, idempotencyKey, trace }: Reporter,
  ): Promise<Answer<null>> {
    const params = {
      path: { id: runId },
      header: {
        Prefer: 'return=minimal',
        'X-Worker-Id': workerId,
        ...(attempt === null ? {} : { 'X-Run-Attempt': attempt }),
      },
    };
    const body = { type, msg, ...(payload === undefined ? {} : { payload }) };
    const headers = { 'Idempotency-Key': idempotencyKey, ...traceHeaders(trace) };
    const answer = await send(
      POST_EVENT_MS,
      (init) => this.client.POST('/runs/{id}/events', { params, body, headers, ...init }),
      (data, { status }) => status === 204 || isJsonObject(data) || null,
    );
    return answer.kind === 'ok' ? { kind: 'ok', value: null } : answer;
  }

  putLogChunk(
    { runId, attempt, workerId, number }: ChunkAddress,
    { firstLine, lines, skippedBytes, isLast }: LogChunk,
    signal: AbortSignal,
  ): Promise<Answer<LogPosition>> {
    const params = {
      path: { id: runId, chunk: number },
      header: { 'X-Worker-Id': workerId, 'X-Run-Attempt': attempt },
    };
    const body = {
      first_line: firstLine,
      lines: lines.map(({ atMs, stream, text, isContinued }) => ({
        t: new Date(atMs).toISOString(),
        stream,
        text,
        continued: isContinued,
      })),
      ...(skippedBytes > 0 ? { skipped_bytes: skippedBytes } : {}),
      is_last: isLast,
    };
    return send(
      PUT_LOG_MS,
      (init) => this.client.PUT('/runs/{id}/logs/{chunk}', { params, body, ...init }),
      (answer) => {
        if (!isJsonObject(answer)) return null;
        const { next_chunk: nextChunk, next_line: nextLine } = answer;
        return typeof nextChunk === 'number' && typeof nextLine === 'number' ? { nextChunk, nextLine } : null;
      },
      signal,
    );
  }
}

/** @param read parses the body; null: the body is not the service's */
async function send<T>(
  timeoutMs: number,
  call: (init: CallInit) => Promise<ClientResult<unknown>>,
  read: (data: unknown, response: Response) => T | null,
  aborted?: AbortSignal,
): Promise<Answer<T>> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = aborted === undefined ? timeout : AbortSignal.any([timeout, aborted]);
  try {
    const { data, error, response } = await call({ signal, redirect: 'manual' });
    if (!response.ok && response.status !== NOT_MODIFIED) return answerOf(error, response);
    const value = read(data, response);
    if (value !== null) return { kind: 'ok', value };
    return { kind: 'unreachable', reason: `HTTP ${response.status} with a body that is not the service's` };
  } catch (error) {
    return { kind: 'unreachable', reason: reasonOf(error, timeoutMs) };
  }
}

function answerOf(error: unknown, { status, headers }: Response): Answer<never> {
  const message =
    isJsonObject(error) && typeof error['detail'] === 'string' ? error['detail'] : `HTTP ${status}`;
  const detail = message.slice(0, MAX_DETAIL);
  if (status >= 400 && status < 500 && !RETRYABLE.has(status)) return { kind: 'refused', status, detail };
  const retryAfterSeconds = Number(headers.get('Retry-After') ?? Number.NaN);
  const reason = message === `HTTP ${status}` ? message : `HTTP ${status}: ${detail}`;
  return retryAfterSeconds >= 0
    ? { kind: 'unreachable', reason, retryAfterSeconds }
    : { kind: 'unreachable', reason };
}

/** fetch reports the reason in the cause of its error. */
function reasonOf(error: unknown, timeoutMs: number): string {
  if (error instanceof Error && error.name === 'TimeoutError') return `no answer within ${timeoutMs} ms`;
  if (error instanceof Error && error.name === 'AbortError') return 'aborted';
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof AggregateError) return cause.errors.map(errorText).join('; ');
  return errorText(cause ?? error);
}

/** Null: the header is absent or not a positive number. */
function readPositive(headers: Headers, name: string): number | null {
  const value = Number(headers.get(name) ?? Number.NaN);
  return value > 0 && Number.isFinite(value) ? value : null;
}

function traceHeaders(trace: TraceContext | null): Readonly<Record<string, string>> {
  if (trace === null) return {};
  const { traceparent, tracestate } = trace;
  return { traceparent, ...(tracestate === null ? {} : { tracestate }) };
}

function toWireConstraints({ ramMb, vramMb, cpu, gpuId }: Constraints): Schemas['Constraints'] {
  return { ram_mb: ramMb, vram_mb: vramMb, cpu, gpu_id: gpuId };
}
