import type { LongshoreClient, Schemas } from '@longshore/client';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import { readTraceContext, type TraceContext } from '@longshore/common/tracing/trace-context';
import { errorText } from '../execution/failure-message.js';
import type {
  Answer,
  ChunkAddress,
  ClaimCall,
  ClaimedRun,
  Constraints,
  HeartbeatReport,
  LogChunk,
  Reporter,
  RunEvent,
  RunView,
  ServiceApi,
} from './service-api.js';

/** Time limits of requests, in milliseconds; those of heartbeats and claims are chosen by whoever sends them. */
const GET_RUN_MS = 10_000;
/** An event may carry outputs of many megabytes. */
const POST_EVENT_MS = 30_000;
const PUT_LOG_MS = 30_000;

const MAX_DETAIL = 1000;

/** 4xx answers that are no refusal of the request as such: too slow, too early, too often. */
const TRY_LATER: ReadonlySet<number> = new Set([408, 425, 429]);

/** What a call of the generated client gives. */
interface ClientResult<T> {
  readonly data?: T;
  readonly error?: unknown;
  readonly response: Response;
}

/** What every call needs to be cut short, and to be answered by the service itself. */
interface CallInit {
  readonly signal: AbortSignal;
  /** Following a redirect would hand the API key to whatever it names. */
  readonly redirect: 'manual';
}

/** The service over HTTP. */
export class HttpServiceApi implements ServiceApi {
  constructor(private readonly client: LongshoreClient) {}

  heartbeat(
    { workerId, resources, tags, runningOps }: HeartbeatReport,
    timeLimitMs: number,
  ): Promise<Answer<{ readonly workerTimeoutSeconds: number | null }>> {
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
      running_ops: runningOps.map(({ id, image, inputs, constraints }) => ({
        id,
        image,
        inputs,
        constraints: toWireConstraints(constraints),
      })),
    };
    return ask(
      timeLimitMs,
      (init) => this.client.POST('/workers/heartbeat', { body, ...init }),
      (worker, response) => {
        if (!isJsonObject(worker) || worker['id'] !== workerId) return null;
        const seconds = Number(response.headers.get('X-Worker-Timeout') ?? Number.NaN);
        return { workerTimeoutSeconds: seconds > 0 && Number.isFinite(seconds) ? seconds : null };
      },
    );
  }

  claim(
    workerId: string,
    idempotencyKey: string,
    { waitSeconds, timeLimitMs, signal }: ClaimCall,
  ): Promise<Answer<readonly ClaimedRun[]>> {
    const headers = { 'Idempotency-Key': idempotencyKey };
    // An older service refuses a query parameter that it does not know.
    const query: { wait?: number } = waitSeconds > 0 ? { wait: waitSeconds } : {};
    const params = { path: { worker_id: workerId }, query };
    return ask(
      timeLimitMs,
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

  getRun(runId: string): Promise<Answer<RunView>> {
    const params = { path: { id: runId }, query: { include_events: false } };
    return ask(
      GET_RUN_MS,
      (init) => this.client.GET('/runs/{id}', { params, ...init }),
      (run) => readRun(run, runId),
    );
  }

  postEvent(
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
    return askForNothing(POST_EVENT_MS, (init) =>
      this.client.POST('/runs/{id}/events', { params, body, headers, ...init }),
    );
  }

  putLogChunk(
    { runId, attempt, workerId, number }: ChunkAddress,
    { firstLine, lines, skippedBytes, isLast }: LogChunk,
    signal: AbortSignal,
  ): Promise<Answer<{ readonly nextChunk: number }>> {
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
    return ask(
      PUT_LOG_MS,
      (init) => this.client.PUT('/runs/{id}/logs/{chunk}', { params, body, ...init }),
      (answer) => {
        const nextChunk = isJsonObject(answer) ? answer['next_chunk'] : null;
        return typeof nextChunk === 'number' ? { nextChunk } : null;
      },
      signal,
    );
  }
}

/**
 * Makes a call and says what came of it.
 * @param read takes what is needed out of the answer; null when that is not an answer of our service
 * @param breakOff ends the call early
 */
async function ask<T>(
  limitMs: number,
  call: (init: CallInit) => Promise<ClientResult<unknown>>,
  read: (data: unknown, response: Response) => T | null,
  breakOff?: AbortSignal,
): Promise<Answer<T>> {
  const limit = AbortSignal.timeout(limitMs);
  const signal = breakOff === undefined ? limit : AbortSignal.any([limit, breakOff]);
  try {
    const { data, error, response } = await call({ signal, redirect: 'manual' });
    if (!response.ok) return answerOf(error, response);
    const value = read(data, response);
    if (value !== null) return { kind: 'ok', value };
    return { kind: 'unreachable', reason: `HTTP ${response.status} with a body that is not the service's` };
  } catch (error) {
    return { kind: 'unreachable', reason: reasonOf(error, limitMs) };
  }
}

async function askForNothing(
  limitMs: number,
  call: (init: CallInit) => Promise<ClientResult<unknown>>,
): Promise<Answer<null>> {
  const answer = await ask(limitMs, call, (data, { status }) => status === 204 || isJsonObject(data) || null);
  return answer.kind === 'ok' ? { kind: 'ok', value: null } : answer;
}

function answerOf(error: unknown, { status, headers }: Response): Answer<never> {
  const said =
    isJsonObject(error) && typeof error['detail'] === 'string' ? error['detail'] : `HTTP ${status}`;
  const detail = said.slice(0, MAX_DETAIL);
  if (status >= 400 && status < 500 && !TRY_LATER.has(status)) return { kind: 'refused', status, detail };
  const retryAfterSeconds = Number(headers.get('Retry-After') ?? Number.NaN);
  const reason = said === `HTTP ${status}` ? said : `HTTP ${status}: ${detail}`;
  return retryAfterSeconds >= 0
    ? { kind: 'unreachable', reason, retryAfterSeconds }
    : { kind: 'unreachable', reason };
}

/** fetch hides why it failed in its error's cause. */
function reasonOf(error: unknown, limitMs: number): string {
  if (error instanceof Error && error.name === 'TimeoutError') return `no answer within ${limitMs} ms`;
  if (error instanceof Error && error.name === 'AbortError') return 'broken off';
  const cause = error instanceof Error ? error.cause : undefined;
  if (cause instanceof AggregateError) return cause.errors.map(errorText).join('; ');
  return errorText(cause ?? error);
}

function readRun(run: unknown, runId: string): RunView | null {
  if (!isJsonObject(run) || run['id'] !== runId) return null;
  const { state, current_attempt: currentAttempt, image, inputs, outputs, execution_summary: summary } = run;
  if (typeof state !== 'string' || typeof image !== 'string' || typeof currentAttempt !== 'number')
    return null;
  if (!isJsonObject(inputs) || !isJsonObject(outputs) || !isJsonObject(summary)) return null;
  const workerId = summary['worker_id'];
  return {
    state,
    currentAttempt,
    image,
    inputs,
    outputs,
    workerId: typeof workerId === 'string' ? workerId : null,
  };
}

function readClaimedRun(op: unknown): ClaimedRun | null {
  if (!isJsonObject(op)) return null;
  const { id, image, inputs, constraints, attempt } = op;
  if (typeof id !== 'string' || typeof image !== 'string') return null;
  if (!isJsonObject(inputs) || !isJsonObject(constraints)) return null;
  return {
    id,
    image,
    inputs,
    constraints: {
      ramMb: amount(constraints, 'ram_mb'),
      vramMb: amount(constraints, 'vram_mb'),
      cpu: amount(constraints, 'cpu'),
      gpuId: typeof constraints['gpu_id'] === 'number' ? constraints['gpu_id'] : null,
    },
    attempt: typeof attempt === 'number' ? attempt : null,
    trace: readTraceContext(op['traceparent'], op['tracestate']),
  };
}

function traceHeaders(trace: TraceContext | null): Readonly<Record<string, string>> {
  if (trace === null) return {};
  const { traceparent, tracestate } = trace;
  return { traceparent, ...(tracestate === null ? {} : { tracestate }) };
}

function amount(constraints: JsonObject, key: string): number {
  const value = constraints[key];
  return typeof value === 'number' ? value : 0;
}

function toWireConstraints({ ramMb, vramMb, cpu, gpuId }: Constraints): Schemas['Constraints'] {
  return { ram_mb: ramMb, vram_mb: vramMb, cpu, gpu_id: gpuId };
}
