import { createLongshoreClient, type LongshoreClient, type Schemas } from '@longshore/client';
import { EXACT_JSON } from '@longshore/common/json/json-text';
import { isJsonObject, type JsonObject } from '@longshore/common/json/json-value';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import { Semaphore } from '@longshore/common/semaphore';
import { toWireConstraints } from './constraints.js';
import { withoutRefused } from './older-service.js';
import {
  readClaimedRun,
  readEndingRun,
  readHeldAttempts,
  readKey,
  readLogPosition,
  readLostRun,
  readRun,
  readSecrets,
  readTimeline,
} from './read-answers.js';
import { readUploads, type Upload, type UploadRequest } from './run-artifacts.js';
import { ask, NOT_MODIFIED, type TransferLimits } from './service-answer.js';
import type {
  Answer,
  ChunkAddress,
  ClaimCall,
  ClaimedRun,
  ContainerEngine,
  HeldAttempt,
  HeartbeatAnswer,
  HeartbeatCall,
  HeartbeatReport,
  KeyView,
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

/** Until an answer begins, in milliseconds. */
const ANSWER_MS = 30_000;
/** Of requests whose service looks up one row. */
const SMALL_ANSWER_MS = 10_000;
/** Short, because the end of the worker waits for it. */
const REMOVE_WORKER_MS = 3_000;

/** Timelines of many megabytes that are read at a time: a launcher that starts may adopt a thousand jobs. */
const TIMELINES_AT_ONCE = 8;

/** Runs whose latest answer is kept, at most. */
const MAX_KEPT_RUNS = 1_000;
/** Bytes of a run's answer that is kept, at most. */
const MAX_KEPT_BYTES = 16_384;

/** Where the service is, and the worker's key. */
export interface ServiceAddress {
  /** For example `http://127.0.0.1:5555`. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** SERVICE_WORKER_MAX_ANSWER_BYTES; default: no limit. */
  readonly maxBytes?: number;
  /** Default: that of Node. */
  readonly fetch?: (request: Request) => Promise<Response>;
}

/** The service over HTTP. */
export class HttpServiceApi implements ServiceApi {
  private readonly timelines = new Semaphore(TIMELINES_AT_ONCE);
  /** The latest answers of runs with their entity tags, the oldest first: a poll of an unchanged run transfers nothing. */
  private readonly kept = new Map<string, { readonly etag: string; readonly view: RunView }>();
  /** Whether the newest answer to a heartbeat tells of no lost runs, as those of a service that knows only interface.md. */
  private isOlder = false;

  private readonly client: LongshoreClient;
  private readonly transport: Pick<TransferLimits, 'maxBytes' | 'fetch'>;

  constructor({
    baseUrl,
    apiKey,
    maxBytes = Number.POSITIVE_INFINITY,
    fetch = globalThis.fetch,
  }: ServiceAddress) {
    this.client = createLongshoreClient({ baseUrl, apiKey, json: EXACT_JSON });
    this.transport = { maxBytes, fetch };
  }

  heartbeat(
    report: HeartbeatReport,
    { waitSeconds, timeoutMs, signal }: HeartbeatCall,
  ): Promise<Answer<HeartbeatAnswer>> {
    const { workerId, resources, load, tags, capabilities, notClaiming, unable } = report;
    const { runningOps, endingOps, awaySeconds } = report;
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
      ...(capabilities.length === 0 ? {} : { capabilities: [...capabilities] }),
      ...(load === null ? {} : { engine: load }),
      ...(report.containerEngine === null ? {} : { container_engine: toWireEngine(report.containerEngine) }),
      ...(notClaiming.length === 0 ? {} : { not_claiming: [...notClaiming] }),
      ...(unable.length === 0 ? {} : { unable: [...unable] }),
      ...(awaySeconds === null ? {} : { away_s: awaySeconds }),
      running_ops: runningOps.map(({ id, image, inputs, constraints, attempt }) => ({
        id,
        image,
        inputs,
        constraints: toWireConstraints(constraints),
        ...(attempt === null ? {} : { attempt }),
      })),
      ...(endingOps.length === 0 ? {} : { ending_ops: [...endingOps] }),
    };
    return this.ask(
      // A late answer is none: the worker timeout counts.
      { timeoutMs, isTotal: true, aborted: signal },
      (init) => this.client.POST('/workers/heartbeat', { params: { query }, body, ...init }),
      (worker, response) => {
        if (!isJsonObject(worker) || worker['id'] !== workerId) return null;
        const { lost_ops: lost, kill_ops: killed }: JsonObject = worker;
        this.isOlder = !Array.isArray(lost);
        return {
          workerTimeoutSeconds: readPositive(response.headers, 'X-Worker-Timeout'),
          maxBodyBytes: readPositive(response.headers, 'X-Max-Body-Bytes'),
          lostRuns: Array.isArray(lost) ? lost.flatMap(readLostRun) : null,
          killedRuns: Array.isArray(killed) ? killed.flatMap(readEndingRun) : [],
        };
      },
    );
  }

  claim(
    workerId: string,
    idempotencyKey: string,
    { max, waitSeconds, timeoutMs, signal, onAssigned }: ClaimCall,
  ): Promise<Answer<readonly ClaimedRun[]>> {
    const headers = { 'Idempotency-Key': idempotencyKey };
    // An older service refuses an unknown query parameter.
    const query: { wait?: number; max?: number } = {
      ...(waitSeconds > 0 && { wait: waitSeconds }),
      ...(max !== undefined && !this.isOlder && { max }),
    };
    const params = { path: { worker_id: workerId }, query };
    return this.ask(
      {
        timeoutMs,
        aborted: signal,
        onHeaders: (given) => onAssigned(given.get('X-Claimed-Runs')?.split(' ') ?? []),
      },
      (init) => this.client.POST('/workers/{worker_id}/claim', { params, headers, ...init }),
      (answer) => {
        const ops = isJsonObject(answer) ? answer['ops'] : null;
        if (!Array.isArray(ops)) return null;
        const runs = ops.map(readClaimedRun);
        return runs.every((run) => run !== null) ? runs : null;
      },
    );
  }

  listHeld(workerId: string): Promise<Answer<readonly HeldAttempt[]>> {
    const params = { path: { worker_id: workerId } };
    return this.ask(
      { timeoutMs: SMALL_ANSWER_MS },
      (init) => this.client.GET('/workers/{worker_id}/runs', { params, ...init }),
      readHeldAttempts,
    );
  }

  async removeWorker(workerId: string): Promise<Answer<null>> {
    const params = { path: { worker_id: workerId } };
    const answer = await this.ask(
      { timeoutMs: REMOVE_WORKER_MS },
      (init) => this.client.DELETE('/workers/{worker_id}', { params, ...init }),
      (_, { status }) => status === 204 || null,
    );
    return answer.kind === 'ok' ? { kind: 'ok', value: null } : answer;
  }

  whoami(): Promise<Answer<KeyView>> {
    return this.ask(
      { timeoutMs: SMALL_ANSWER_MS },
      (init) => this.client.GET('/whoami', { ...init }),
      readKey,
    );
  }

  async getRun(runId: string, holder?: RunHolder): Promise<Answer<RunView>> {
    if (this.isOlder) return this.askRun(runId, {}, holder);
    const answer = await this.askRun(runId, { include_events: false }, holder);
    const isUnknownQuery = answer.kind === 'refused' && answer.status === 400;
    return isUnknownQuery ? this.askRun(runId, {}, holder) : answer;
  }

  getTimeline(runId: string): Promise<Answer<readonly TimelineEntry[]>> {
    const params = { path: { id: runId } };
    return this.timelines.run(() =>
      this.ask(
        { timeoutMs: ANSWER_MS },
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
    return this.ask(
      { timeoutMs: SMALL_ANSWER_MS },
      (init) => this.client.GET('/runs/{id}/secrets', { params, ...init }),
      readSecrets,
    );
  }

  getUploads(
    runId: string,
    request: UploadRequest,
    holder: RunHolder,
  ): Promise<Answer<Readonly<Record<string, Upload>>>> {
    const params = {
      path: { id: runId },
      header: { 'X-Worker-Id': holder.workerId, 'X-Run-Attempt': holder.attempt ?? 1 },
    };
    const body = { ...request, names: [...request.names] };
    return this.ask(
      { timeoutMs: ANSWER_MS },
      (init) => this.client.POST('/runs/{id}/artifact-urls', { params, body, ...init }),
      readUploads,
    );
  }

  async postEvent(runId: string, event: RunEvent, reporter: Reporter): Promise<Answer<null>> {
    const { type, msg, payload } = event;
    const { workerId, attempt, idempotencyKey, trace } = reporter;
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
    const answer = await this.ask(
      { timeoutMs: ANSWER_MS },
      (init) => this.client.POST('/runs/{id}/events', { params, body, headers, ...init }),
      (data, { status }) => status === 204 || (isJsonObject(data) && data['id'] === runId) || null,
    );
    if (answer.kind === 'ok') return { kind: 'ok', value: null };
    const known = answer.kind === 'refused' ? withoutRefused(event, answer) : null;
    return known === null ? answer : this.postEvent(runId, known, reporter);
  }

  putLogChunk(
    { runId, attempt, workerId, number }: ChunkAddress,
    { firstLine, lines, skippedBytes, isLast, cursor }: LogChunk,
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
      ...(cursor === undefined ? {} : { cursor }),
    };
    return this.ask(
      { timeoutMs: ANSWER_MS, aborted: signal },
      (init) => this.client.PUT('/runs/{id}/logs/{chunk}', { params, body, ...init }),
      readLogPosition,
    );
  }

  private askRun(
    runId: string,
    query: { readonly include_events?: false },
    holder?: RunHolder,
  ): Promise<Answer<RunView>> {
    const params = { path: { id: runId }, query };
    // The answer to a holder has fresh URLs each time.
    const known = holder === undefined ? this.kept.get(runId) : undefined;
    const headers = {
      ...(known === undefined ? {} : { 'If-None-Match': known.etag }),
      ...(holder === undefined ? {} : fencingHeaders(holder)),
    };
    return this.ask(
      { timeoutMs: SMALL_ANSWER_MS },
      (init) => this.client.GET('/runs/{id}', { params, headers, ...init }),
      (run, response) => {
        if (response.status === NOT_MODIFIED) return known?.view ?? null;
        const view = readRun(run, runId);
        if (view !== null && holder === undefined) this.keep(runId, view, response.headers);
        return view;
      },
    );
  }

  private keep(runId: string, view: RunView, headers: Headers): void {
    this.kept.delete(runId);
    const etag = headers.get('ETag');
    const isSmall = Number(headers.get('Content-Length') ?? Number.NaN) <= MAX_KEPT_BYTES;
    if (etag === null || !isSmall) return;
    this.kept.set(runId, { etag, view });
    const [oldest] = this.kept.keys();
    if (this.kept.size > MAX_KEPT_RUNS && oldest !== undefined) this.kept.delete(oldest);
  }

  private ask<T>(
    limits: Omit<TransferLimits, 'maxBytes' | 'fetch'>,
    call: Parameters<typeof ask>[1],
    read: (data: unknown, response: Response) => T | null,
  ): Promise<Answer<T>> {
    return ask({ ...limits, ...this.transport }, call, read);
  }
}

/** Null: the header is absent or not a positive number. */
function readPositive(headers: Headers, name: string): number | null {
  const value = Number(headers.get(name) ?? Number.NaN);
  return value > 0 && Number.isFinite(value) ? value : null;
}

function fencingHeaders({ workerId, attempt }: RunHolder): Readonly<Record<string, string>> {
  return { 'X-Worker-Id': workerId, ...(attempt === null ? {} : { 'X-Run-Attempt': String(attempt) }) };
}

function traceHeaders(trace: TraceContext | null): Readonly<Record<string, string>> {
  if (trace === null) return {};
  const { traceparent, tracestate } = trace;
  return { traceparent, ...(tracestate === null ? {} : { tracestate }) };
}

/** The version of the runtime only where it is known: null is no text. */
function toWireEngine({
  runtime_version: version,
  ...engine
}: ContainerEngine): NonNullable<Schemas['HeartbeatRequest']['container_engine']> {
  return { ...engine, ...(version === null ? {} : { runtime_version: version }) };
}
