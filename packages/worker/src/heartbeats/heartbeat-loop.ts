import { jsonText } from '@longshore/common/json/json-text';
import type { Executions } from '../execution/executions.js';
import type { Executor } from '../execution/executor.js';
import type { ServiceTerms, WorkerContext } from '../worker-context.js';
import { Backoff } from '@longshore/common/backoff';
import { plainReport } from '../service-api/older-service.js';
import type { HeartbeatReport, HeldRun, Refusal } from '../service-api/service-api.js';

/** Limit of the inputs of all runs in a heartbeat, in characters of JSON. */
const MAX_INPUTS_LENGTH = 64 * 1024;

/** Timing of heartbeats. */
export interface HeartbeatPlan {
  /** Whole seconds that the service may delay the answer; 0: none, as the worker timeout is too short. */
  readonly waitSeconds: number;
  /** Pause after an accepted heartbeat that does not wait, in whole milliseconds. */
  readonly intervalMs: number;
  /** Timeout of an answer, without the wait, in whole milliseconds. */
  readonly timeoutMs: number;
  /** Longest pause after a failure, in whole milliseconds. */
  readonly maxPauseMs: number;
}

/** The service's limit of ending runs in a heartbeat. */
const MAX_ENDING = 1000;

/** Heartbeats that tell of an absence, at most. */
const ABSENCE_TRIES = 3;
const ABSENCE_RETRY = { firstMs: 250, maxMs: 500 };

const MAX_TIMEOUT_MS = 10_000;
const MIN_MS = 10;

/** Keeps a waiting request shorter than the idle timeout of common proxies. */
const MAX_WAIT_SECONDS = 20;

/** Minimum time between two heartbeats that tell of lost runs, in milliseconds. */
const MIN_GAP_MS = 500;

/** An answer that used this part of its wait is not followed by a pause. */
const FULL_WAIT = 0.9;

/**
 * Plans heartbeats so that two of three may fail: the pause or the wait, together with the timeout, is at most a third of the
 * worker timeout.
 */
export function planHeartbeats(tickSeconds: number, workerTimeoutSeconds: number): HeartbeatPlan {
  const thirdMs = (workerTimeoutSeconds * 1000) / 3;
  const intervalMs = toWholeMs(Math.min(tickSeconds * 1000, thirdMs / 2));
  const timeoutMs = toWholeMs(Math.min(MAX_TIMEOUT_MS, thirdMs - intervalMs));
  const maxPauseMs = Math.max(intervalMs, toWholeMs(thirdMs - timeoutMs));
  const waitSeconds = Math.floor(Math.min(MAX_WAIT_SECONDS, (thirdMs - timeoutMs) / 1000));
  return { waitSeconds, intervalMs, timeoutMs, maxPauseMs };
}

export interface HeartbeatOptions {
  readonly executor: Executor;
  readonly executions: Executions;
  /** Of the settings. */
  readonly tags: readonly string[];
  readonly tickSeconds: number;
  /** Written here alone. */
  readonly terms: ServiceTerms;
  /** Runs that this worker has been assigned and does not execute yet. */
  readonly receiving: () => readonly HeldRun[];
  /** Called after every accepted heartbeat. */
  readonly onAccepted: () => void;
  /** Called when the service refuses the first heartbeat, which means a wrong configuration. */
  readonly onRejected: (refusal: Refusal) => void;
}

type HeartbeatResult =
  /** `hasNews`: of a run that is lost or to be killed. */
  | { readonly kind: 'accepted'; readonly hasNews: boolean }
  /** Aborted while the service held it. */
  | { readonly kind: 'replaced' }
  | { readonly kind: 'failed'; readonly retryAfterSeconds?: number };

/**
 * Sends heartbeats that list the runs of this worker, independent of the worker's other tasks. A current service answers with
 * those that are lost; while there are runs, it holds the answer until one is. A claimed run replaces a held heartbeat.
 */
export class HeartbeatLoop {
  private withInputs = true;
  private failing = false;
  /** Whether the service refuses what interface.md does not have: it is older. */
  private isPlain = false;
  private hasWarnedOfPlain = false;
  private wakeUp = new AbortController();

  constructor(
    private readonly context: WorkerContext,
    private readonly options: HeartbeatOptions,
  ) {}

  /** Asks for a heartbeat soon: there is something new to tell, or the service may have forgotten this worker. */
  wake(): void {
    this.wakeUp.abort();
  }

  /** Runs until the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.context;
    let backoff: Backoff | null = null;
    // The service holds a heartbeat only after an answer to the one before: a replaced one may not have arrived.
    let isAnswered = false;
    while (!signal.aborted) {
      this.wakeUp = new AbortController();
      const runs = this.heldRuns();
      const waitSeconds = isAnswered && this.hasRuns(runs) ? this.plan().waitSeconds : 0;
      const startedAtMs = clock.nowMs();
      const result = await this.send(runs, waitSeconds, signal);
      isAnswered = result.kind === 'accepted';
      const { intervalMs, maxPauseMs } = this.plan();
      if (result.kind === 'failed') {
        // Polls may still be answered.
        this.options.terms.tellsLostRuns = false;
        backoff ??= new Backoff({ firstMs: intervalMs, maxMs: maxPauseMs }, random);
        await clock.sleep(Math.min(backoff.nextMs(result.retryAfterSeconds), maxPauseMs), signal);
        continue;
      }
      backoff = null;
      if (result.kind === 'accepted') {
        await this.pause(this.pauseAfter(result, waitSeconds, startedAtMs), startedAtMs, signal);
      }
    }
  }

  /**
   * Tells the service that the runs go on while this worker is away, at most three times. Call it when `run` has ended.
   * @returns whether the service knows
   */
  async announceAbsence(seconds: number): Promise<boolean> {
    const { api, clock, random, logger } = this.context;
    const { timeoutMs } = this.plan();
    const backoff = new Backoff(ABSENCE_RETRY, random);
    const { signal } = new AbortController();
    for (let tries = 1; ; tries++) {
      const report = this.report(this.heldRuns(), seconds);
      const answer = await api.heartbeat(report, { waitSeconds: 0, timeoutMs, signal });
      if (answer.kind === 'ok') return true;
      if (answer.kind === 'refused' || tries === ABSENCE_TRIES) {
        logger.warn({ answer }, 'the service does not know that this worker leaves its runs for a while');
        return false;
      }
      await clock.sleep(backoff.nextMs());
    }
  }

  private report(runs: readonly HeldRun[], awaySeconds: number | null): HeartbeatReport {
    const { workerId, obstacles, inabilities } = this.context;
    const { executor, executions, tags } = this.options;
    return {
      workerId,
      resources: executor.resources(),
      load: executor.load(),
      tags: [...new Set([...tags, ...executor.tags])],
      capabilities: executor.capabilities,
      notClaiming: obstacles.list(),
      unable: inabilities.list(),
      runningOps: listHeldRuns(runs, this.withInputs ? MAX_INPUTS_LENGTH : 0),
      endingOps: executions.endingRuns().slice(0, MAX_ENDING),
      containerEngine: executor.containerEngine,
      awaySeconds,
    };
  }

  /** As `planHeartbeats`; no waits for an older service. */
  private plan(): HeartbeatPlan {
    const { tickSeconds, terms } = this.options;
    const plan = planHeartbeats(tickSeconds, terms.workerTimeoutSeconds);
    return terms.tellsLostRuns ? plan : { ...plan, waitSeconds: 0 };
  }

  /** The runs of this worker, from the claim to the accepted final event. */
  private heldRuns(): HeldRun[] {
    const { executions, receiving } = this.options;
    return [...executions.heldRuns(), ...receiving(), ...executions.left];
  }

  private hasRuns(held: readonly HeldRun[]): boolean {
    return held.length > 0 || this.options.executions.endingRuns().length > 0;
  }

  private pauseAfter({ hasNews }: { hasNews: boolean }, waitSeconds: number, startedAtMs: number): number {
    const plan = this.plan();
    if (plan.waitSeconds === 0) return plan.intervalMs;
    if (!this.hasRuns(this.heldRuns())) return plan.waitSeconds * 1000;
    const tookMs = this.context.clock.nowMs() - startedAtMs;
    // An early answer without a lost run: the service cannot hold the heartbeat.
    const isEarly = waitSeconds > 0 && !hasNews && tookMs < waitSeconds * 1000 * FULL_WAIT;
    return isEarly ? plan.intervalMs : 0;
  }

  /** Sleeps; `wake` ends the pause, but not before the minimum gap of a service that tells. */
  private async pause(ms: number, startedAtMs: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.context;
    if (this.plan().waitSeconds === 0) return clock.sleep(ms, signal);
    const endMs = clock.nowMs() + ms;
    await clock.sleep(Math.max(0, startedAtMs + MIN_GAP_MS - clock.nowMs()), signal);
    const restMs = endMs - clock.nowMs();
    if (restMs > 0) await clock.sleep(restMs, AbortSignal.any([signal, this.wakeUp.signal]));
  }

  private async send(
    runs: readonly HeldRun[],
    waitSeconds: number,
    shutdown: AbortSignal,
  ): Promise<HeartbeatResult> {
    const { api, logger, inabilities } = this.context;
    const { terms, executions } = this.options;
    const timeoutMs = waitSeconds * 1000 + this.plan().timeoutMs;
    const { signal, answered } = this.interruptible(waitSeconds, shutdown);
    const report = this.report(runs, null);
    const sent = this.isPlain ? plainReport(report) : report;
    const answer = await api.heartbeat(sent, { waitSeconds, timeoutMs, signal });
    answered.abort();
    if (answer.kind === 'ok') {
      const { workerTimeoutSeconds, maxBodyBytes, lostRuns, killedRuns } = answer.value;
      terms.workerTimeoutSeconds = workerTimeoutSeconds ?? terms.workerTimeoutSeconds;
      terms.maxBodyBytes = maxBodyBytes;
      terms.tellsLostRuns = lostRuns !== null;
      // From here on it is a service that knows all of a report.
      this.isPlain &&= !terms.tellsLostRuns;
      inabilities.noteTold(report.unable);
      this.onAccepted();
      const byId = new Map(runs.map((run) => [run.id, run]));
      for (const lost of lostRuns ?? []) {
        const run = byId.get(lost.id);
        if (run !== undefined) executions.lose(run, lost);
      }
      const killed = killedRuns.filter((run) => executions.kill(run));
      return { kind: 'accepted', hasNews: killed.length > 0 || (lostRuns ?? []).length > 0 };
    }
    if (signal.aborted) return { kind: 'replaced' };
    this.withInputs &&= answer.status !== 413;
    if (answer.kind === 'refused') {
      // Another process of the service may be of an older version.
      if (waitSeconds > 0 && answer.status === 400) {
        terms.tellsLostRuns = false;
        return { kind: 'replaced' };
      }
      if (!this.isPlain && answer.status === 400) {
        this.isPlain = true;
        logger[this.hasWarnedOfPlain ? 'debug' : 'warn'](
          { detail: answer.detail },
          'the service refuses a heartbeat, it may be of an older version: sending one without capabilities, which gets only runs that need none',
        );
        this.hasWarnedOfPlain = true;
        return { kind: 'replaced' };
      }
      if (!terms.registered.signal.aborted && answer.status !== 413) this.options.onRejected(answer);
    }
    if (!this.failing) logger.warn({ answer }, 'heartbeat not accepted, retrying');
    this.failing = true;
    return answer.kind === 'unreachable'
      ? { kind: 'failed', retryAfterSeconds: answer.retryAfterSeconds ?? 0 }
      : { kind: 'failed' };
  }

  /**
   * A signal that aborts a held heartbeat after `wake` or at a shutdown, but not before the service has certainly recorded it.
   * Abort `answered` after the request.
   */
  private interruptible(waitSeconds: number, shutdown: AbortSignal) {
    const { clock } = this.context;
    const request = new AbortController();
    const answered = new AbortController();
    const gapEndMs = clock.nowMs() + MIN_GAP_MS;
    const interrupt = async () => {
      await clock.sleep(Math.max(0, gapEndMs - clock.nowMs()), answered.signal);
      request.abort();
    };
    if (waitSeconds > 0) {
      const either = AbortSignal.any([shutdown, this.wakeUp.signal]);
      either.addEventListener('abort', () => void interrupt(), { once: true, signal: answered.signal });
    }
    return { signal: request.signal, answered };
  }

  private onAccepted(): void {
    const { logger } = this.context;
    if (this.failing) logger.info('heartbeats are accepted again');
    this.failing = false;
    const { workerTimeoutSeconds, registered } = this.options.terms;
    if (!registered.signal.aborted) {
      logger.info({ workerTimeoutSeconds }, 'registered at the service');
      registered.abort();
    }
    this.options.onAccepted();
  }
}

/**
 * The runs as a heartbeat lists them: each once, and with inputs only up to a total length, because a heartbeat above the
 * service's size limit would cost the worker all its runs.
 */
export function listHeldRuns(runs: readonly HeldRun[], maxInputsLength: number): HeldRun[] {
  const listed = new Map<string, HeldRun>();
  let room = maxInputsLength;
  for (const run of runs) {
    const { id, image, inputs, constraints, attempt } = run;
    const length = jsonText(inputs).length;
    const fits = length <= room;
    if (fits) room -= length;
    listed.set(id, { id, image, inputs: fits ? inputs : {}, constraints, attempt });
  }
  return [...listed.values()];
}

function toWholeMs(ms: number): number {
  return Math.max(MIN_MS, Math.floor(ms));
}
