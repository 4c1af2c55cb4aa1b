import { TERMINAL_STATES } from '@longshore/client/constants';
import { readContainer } from '../service-api/read-answers.js';
import type { Upload, UploadRequest } from '../service-api/run-artifacts.js';
import type { Clock } from '../process/clock.js';
import { FakeLogs } from './fake-logs.js';
import type { FakeRun } from './fake-run.js';
import { signUploads, type SignUpload } from './fake-uploads.js';
import { NO_CONSTRAINTS } from '../service-api/constraints.js';
import type {
  Answer,
  ChunkAddress,
  ClaimCall,
  ClaimedRun,
  HeartbeatAnswer,
  HeartbeatCall,
  HeartbeatReport,
  HeldAttempt,
  KeyView,
  LogChunk,
  LogPosition,
  LostRun,
  Reporter,
  RunContainer,
  RunEvent,
  RunHolder,
  RunSecrets,
  RunView,
  ServiceApi,
  TimelineEntry,
} from '../service-api/service-api.js';

/** One request that reached the fake service. */
export interface Call {
  readonly what:
    | 'heartbeat'
    | 'whoami'
    | 'claim'
    | 'listHeld'
    | 'removeWorker'
    | 'getRun'
    | 'getTimeline'
    | 'getSecrets'
    | 'getUploads'
    | 'postEvent'
    | 'putLogChunk';
  readonly runId?: string;
  readonly event?: RunEvent;
  readonly key?: string;
  readonly report?: HeartbeatReport;
  readonly address?: ChunkAddress;
  readonly chunk?: LogChunk;
  /** Of uploads. */
  readonly names?: readonly string[];
  /** Of a claim. */
  readonly max?: number | undefined;
  /** Of a claim or a heartbeat. */
  readonly waitSeconds?: number;
  readonly atMs: number;
}

/** An answer instead of the service's own; `lose-answer`: handled, but not answered; `hang`: neither handled nor answered. */
export type Fault = Answer<never> | 'lose-answer' | 'hang' | undefined;

/** A run that changes nothing about the container of its image. */
export const PLAIN: RunContainer = Object(readContainer({}));

const TIME_LIMIT_MS = 10_000;

/** After how long a held heartbeat sees a lost run, in milliseconds. */
const NOTICE_MS = 250;

interface Handling {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Resolves when the service can answer. */
  readonly ready?: () => Promise<void>;
}

export const DOWN: Answer<never> = { kind: 'unreachable', reason: 'HTTP 503' };

const ABORTED: Answer<never> = { kind: 'unreachable', reason: 'aborted' };

/** A service in memory: claims, fencing, retries, idempotency keys and injected faults. */
export class FakeService implements ServiceApi {
  readonly runs = new Map<string, FakeRun>();
  readonly calls: Call[] = [];
  /** Ids of runs whose programs are to be killed. */
  readonly killed = new Set<string>();
  workerTimeoutSeconds: number | null = null;
  maxBodyBytes: number | null = null;
  onCall: (call: Call) => Fault = () => undefined;
  /** How long it takes for a chunk of a log, in milliseconds. */
  chunkMs = 0;
  /** Whether it supports waiting heartbeats and names lost runs; an older service does not. */
  tellsLostRuns = true;
  /** Whether it supports waiting claims; an older service refuses them. */
  supportsWait = true;
  /** Whether it answers waiting requests at once, as a stopping service does. */
  endsWaits = false;
  waiting = 0;
  readonly logs = new FakeLogs();
  /** API key of the callers: idempotency keys count for one alone. */
  apiKey = 'key';
  /** What it answers to GET /whoami. */
  key: KeyView = { scopes: ['worker'], workerIds: null };
  /** What it answers to requests for secrets. */
  secrets: RunSecrets = { env: {}, files: {}, registry: null };
  /** What it answers to requests for uploads; null: files are not configured. */
  uploads: SignUpload | null = null;
  private workAdded = new AbortController();
  private readonly claimsByKey = new Map<string, readonly ClaimedRun[]>();
  /** Bodies of events by run and key. */
  private readonly eventKeys = new Map<string, string>();

  constructor(private readonly clock: Clock) {}

  /** Adds a pending run. */
  add(id: string, more: Partial<FakeRun> = {}): FakeRun {
    const run: FakeRun = {
      id,
      image: 'example/image:1',
      inputs: {},
      outputs: {},
      constraints: NO_CONSTRAINTS,
      container: PLAIN,
      state: 'PENDING',
      attempt: 1,
      maxAttempts: 1,
      failures: 0,
      workerId: null,
      selector: [],
      mustStartInTime: false,
      timeline: [],
      ...more,
    };
    this.runs.set(id, run);
    this.wakeClaims();
    return run;
  }

  /** Wakes waiting claims. */
  wakeClaims(): void {
    const { workAdded } = this;
    this.workAdded = new AbortController();
    workAdded.abort();
  }

  callsOf(what: Call['what']): Call[] {
    return this.calls.filter((call) => call.what === what);
  }

  heartbeat(
    report: HeartbeatReport,
    { waitSeconds, timeoutMs, signal }: HeartbeatCall,
  ): Promise<Answer<HeartbeatAnswer>> {
    const call = { what: 'heartbeat', report, waitSeconds } as const;
    if (waitSeconds > 0 && !this.tellsLostRuns) {
      return this.answer(call, () => refused(400, 'wait is not a known query parameter'), { timeoutMs });
    }
    const act = () =>
      ok({
        workerTimeoutSeconds: this.workerTimeoutSeconds,
        maxBodyBytes: this.maxBodyBytes,
        lostRuns: this.tellsLostRuns ? this.lostRuns(report) : null,
        killedRuns: report.endingOps.filter(({ id }) => this.killed.has(id)),
      });
    const ready = () => this.untilLost(report, waitSeconds, signal);
    return this.answer(call, act, { timeoutMs, signal, ready });
  }

  async claim(
    workerId: string,
    key: string,
    { max, waitSeconds, timeoutMs, signal, onAssigned }: ClaimCall,
  ): Promise<Answer<readonly ClaimedRun[]>> {
    const call = { what: 'claim', key, waitSeconds, max } as const;
    const act = () => {
      const claimed = this.claimsByKey.get(key) ?? this.claimNext(workerId);
      this.claimsByKey.set(key, claimed);
      onAssigned(claimed.map(({ id }) => id));
      return ok(claimed);
    };
    if (waitSeconds > 0 && !this.supportsWait) {
      return this.answer(call, () => refused(400, "Unknown query parameter 'wait'"), { timeoutMs });
    }
    const ready = () => this.untilWork(key, waitSeconds, signal);
    return this.answer(call, act, { timeoutMs, signal, ready });
  }

  whoami(): Promise<Answer<KeyView>> {
    return this.answer({ what: 'whoami' }, () => ok(this.key));
  }

  listHeld(workerId: string): Promise<Answer<readonly HeldAttempt[]>> {
    return this.answer({ what: 'listHeld' }, () => ok(this.logs.held(this.runs.values(), workerId)));
  }

  removeWorker(): Promise<Answer<null>> {
    return this.answer({ what: 'removeWorker' }, () => ok(null));
  }

  getRun(runId: string): Promise<Answer<RunView>> {
    return this.answer({ what: 'getRun', runId }, () => {
      const run = this.runs.get(runId);
      if (run === undefined) return refused(404, `OpRun '${runId}' not found`);
      const { attempt: currentAttempt, ...view } = run;
      return ok({ ...view, currentAttempt, trace: null });
    });
  }

  getTimeline(runId: string): Promise<Answer<readonly TimelineEntry[]>> {
    return this.answer({ what: 'getTimeline', runId }, () => {
      const run = this.runs.get(runId);
      if (run === undefined) return refused(404, `OpRun '${runId}' not found`);
      const entries = run.timeline.map(({ payload = {}, ...entry }, index) => ({ ...entry, payload, index }));
      return ok(entries.slice(-1000));
    });
  }

  getSecrets(runId: string, { workerId, attempt }: RunHolder): Promise<Answer<RunSecrets>> {
    return this.answer({ what: 'getSecrets', runId }, () => {
      const run = this.runs.get(runId);
      const isHolder = run?.workerId === workerId && run.attempt === attempt;
      return isHolder ? ok(this.secrets) : refused(409, `Run '${runId}' is not assigned to this worker`);
    });
  }

  getUploads(
    runId: string,
    request: UploadRequest,
    holder: RunHolder,
  ): Promise<Answer<Readonly<Record<string, Upload>>>> {
    const call = { what: 'getUploads', runId, names: request.names } as const;
    return this.answer(call, () => signUploads(this.uploads, this.runs.get(runId), request, holder));
  }

  postEvent(runId: string, event: RunEvent, reporter: Reporter): Promise<Answer<null>> {
    return this.answer({ what: 'postEvent', runId, event, key: reporter.idempotencyKey }, () =>
      this.record(runId, event, reporter),
    );
  }

  putLogChunk(address: ChunkAddress, chunk: LogChunk, signal: AbortSignal): Promise<Answer<LogPosition>> {
    const { runId } = address;
    const act = () => this.logs.store(address, chunk);
    const ready = () => this.clock.sleep(this.chunkMs, signal);
    const handling = this.chunkMs === 0 ? { signal } : { signal, ready };
    return this.answer({ what: 'putLogChunk', runId, address, chunk }, act, handling);
  }

  private async answer<T>(
    call: Omit<Call, 'atMs'>,
    act: () => Answer<T>,
    { timeoutMs = TIME_LIMIT_MS, signal, ready = async () => undefined }: Handling = {},
  ): Promise<Answer<T>> {
    const received = { ...call, atMs: this.clock.nowMs() };
    this.calls.push(received);
    const fault = this.onCall(received);
    if (fault === 'hang') {
      await this.clock.sleep(timeoutMs, signal);
      return { kind: 'unreachable', reason: 'no answer in time' };
    }
    if (typeof fault === 'object') return fault;
    await ready();
    if (signal?.aborted === true) return ABORTED;
    if (fault === 'lose-answer') {
      act();
      return { kind: 'unreachable', reason: 'connection reset' };
    }
    return act();
  }

  private lostRuns({ workerId, runningOps }: HeartbeatReport): LostRun[] {
    return runningOps.flatMap(({ id, attempt }) => {
      const run = this.runs.get(id);
      if (run === undefined) return [];
      const isLost = TERMINAL_STATES.has(run.state) || run.workerId !== workerId || run.attempt !== attempt;
      return isLost ? [{ id, state: run.state, currentAttempt: run.attempt, workerId: run.workerId }] : [];
    });
  }

  /** Holds a heartbeat until a run is lost, the wait is over, or the request is aborted. */
  private async untilLost(report: HeartbeatReport, waitSeconds: number, signal: AbortSignal): Promise<void> {
    const endMs = this.clock.nowMs() + waitSeconds * 1000;
    while (!this.endsWaits && this.lostRuns(report).length === 0 && !signal.aborted) {
      const leftMs = endMs - this.clock.nowMs();
      if (leftMs <= 0) return;
      await this.clock.sleep(Math.min(leftMs, NOTICE_MS), signal);
    }
  }

  /** Holds a claim until there is a run, the wait is over, or the request is aborted. */
  private async untilWork(key: string, waitSeconds: number, signal: AbortSignal): Promise<void> {
    const endMs = this.clock.nowMs() + waitSeconds * 1000;
    this.waiting += 1;
    while (!this.hasAnswer(key) && !signal.aborted && this.clock.nowMs() < endMs) {
      const woken = AbortSignal.any([signal, this.workAdded.signal]);
      await this.clock.sleep(endMs - this.clock.nowMs(), woken);
    }
    this.waiting -= 1;
  }

  private hasAnswer(key: string): boolean {
    if (this.endsWaits || this.claimsByKey.has(key)) return true;
    return [...this.runs.values()].some(({ state }) => state === 'PENDING');
  }

  private claimNext(workerId: string): readonly ClaimedRun[] {
    const next = [...this.runs.values()].find(({ state }) => state === 'PENDING');
    if (next === undefined) return [];
    next.state = 'ASSIGNED';
    next.workerId = workerId;
    const { id, image, inputs, constraints, attempt, container, artifacts } = next;
    return [
      { id, image, inputs, constraints, attempt, container, ...(artifacts && { artifacts }), trace: null },
    ];
  }

  private record(
    runId: string,
    event: RunEvent,
    { workerId, attempt, idempotencyKey }: Reporter,
  ): Answer<null> {
    const run = this.runs.get(runId);
    if (run === undefined) return refused(404, `OpRun '${runId}' not found`);
    const key = `${this.apiKey} ${runId} ${idempotencyKey}`;
    const body = JSON.stringify(event);
    const recorded = this.eventKeys.get(key);
    if (recorded === body) return ok(null);
    if (recorded !== undefined) return refused(409, 'Idempotency-Key was used with another request body');
    if (TERMINAL_STATES.has(run.state)) return refused(400, `Run is already in terminal state ${run.state}`);
    if (run.workerId !== workerId)
      return refused(409, `Run '${runId}' is not assigned to worker '${workerId}'`);
    if (run.attempt !== attempt) return refused(409, `Run '${runId}' attempt ${attempt} is not current`);
    this.eventKeys.set(key, body);
    run.timeline.push({ ...event, attempt });
    if (event.type === 'STARTED') run.state = 'RUNNING';
    if (event.type === 'COMPLETED') run.state = 'COMPLETED';
    if (event.type === 'FAILED') {
      fail(run);
      this.wakeClaims();
    }
    return ok(null);
  }
}

function fail(run: FakeRun): void {
  run.failures += 1;
  if (run.failures >= run.maxAttempts) {
    run.state = 'FAILED';
    return;
  }
  run.state = 'PENDING';
  run.attempt += 1;
  run.workerId = null;
}

function ok<T>(value: T): Answer<T> {
  return { kind: 'ok', value };
}

function refused(status: number, detail: string): Answer<never> {
  return { kind: 'refused', status, detail };
}

/** Types of the run's events, oldest first. */
export function eventTypes(run: FakeRun): string[] {
  return run.timeline.map(({ type }) => type);
}

/** The error_message of the run's last event; empty: none. */
export function errorMessage(run: FakeRun): string {
  const message = run.timeline.at(-1)?.payload?.['error_message'];
  return typeof message === 'string' ? message : '';
}
