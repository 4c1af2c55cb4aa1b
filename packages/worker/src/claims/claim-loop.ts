import { randomUUID } from 'node:crypto';
import type { Executor } from '../execution/executor.js';
import type { WorkerContext } from '../worker-context.js';
import type { ClaimThrottle } from './claim-throttle.js';
import type { Retirement } from './retirement.js';
import { Backoff } from '@longshore/common/backoff';
import { NO_CONSTRAINTS } from '../service-api/constraints.js';
import type { Answer, ClaimedRun, HeldRun } from '../service-api/service-api.js';

const MAX_PAUSE_MS = 10_000;

/** Minimum time between two claims after an empty answer, in milliseconds. */
const MIN_PAUSE_MS = 100;

/** After this time without an answer, a shutdown aborts a waiting claim, in milliseconds. */
const ANSWER_GRACE_MS = 1000;

/** An empty answer that used this part of its wait is not followed by a pause. */
const FULL_WAIT = 0.9;

/** Keeps a waiting request shorter than the idle timeout of common proxies. */
const MAX_WAIT_SECONDS = 20;

const MIN_MARGIN_MS = 2_000;

/** After so many attempts of a claim without a complete answer, its runs are no longer named: another worker may get them. */
const MAX_INCOMPLETE = 5;

/** After so many claims in a row with the answer 404, for so many milliseconds, no claim can arrive. */
const MISSED = { count: 8, forMs: 60_000 };

interface ClaimPlan {
  /** Whole seconds that the service may delay an empty answer; 0: none. */
  readonly waitSeconds: number;
  /** Timeout of the request, in whole milliseconds. */
  readonly timeoutMs: number;
}

/** A claim without waiting, for a service that does not support it. */
const IMMEDIATE_CLAIM: ClaimPlan = { waitSeconds: 0, timeoutMs: 15_000 };

/**
 * Plans a waiting claim. Its timeout, until the answer begins, is shorter than the worker timeout, so that a claim whose answer was lost is repeated
 * before the service reclaims its runs.
 * @param longestWait in seconds
 */
export function planClaim(workerTimeoutSeconds: number, longestWait = Infinity): ClaimPlan {
  const third = workerTimeoutSeconds / 3;
  const waitSeconds = Math.max(1, Math.floor(Math.min(MAX_WAIT_SECONDS, third, Math.ceil(longestWait))));
  const marginMs = Math.min(IMMEDIATE_CLAIM.timeoutMs, Math.max(MIN_MARGIN_MS, Math.floor(third * 1000)));
  return { waitSeconds, timeoutMs: waitSeconds * 1000 + marginMs };
}

export interface ClaimOptions {
  readonly tickMs: number;
  readonly executor: Executor;
  readonly throttle: ClaimThrottle;
  readonly retirement: Retirement;
  /** Called when the worker has nothing more to do; no claim is open then. */
  readonly onRetired: (reason: string) => void;
  /** Asks for a heartbeat: claims go on after its answer. */
  readonly requestHeartbeat: () => void;
  /** Called for each claim that gets 404, from the end of {@link MISSED} on: heartbeats are accepted meanwhile. */
  readonly onMissed: (reason: string) => void;
  /** @returns whether the run is new to this worker */
  readonly accept: (run: ClaimedRun) => boolean;
}

type ClaimResult =
  | { readonly kind: 'answered'; readonly pauseMs: number }
  | { readonly kind: 'failed'; readonly retryAfterSeconds?: number | undefined };

/**
 * Claims runs while there is room, with requests that the service holds until it has a run.
 *
 * A shutdown aborts a waiting claim and does not repeat it. A run that the service assigned at that very moment is
 * reclaimed by the reaper, which does not consume a retry. Repeating the claim under the same key would find that run, but
 * could also assign a new run to a worker that has no time left for it.
 */
export class ClaimLoop {
  private idempotencyKey = randomUUID();
  /** Of the current claim: a repeated one is the same request. */
  private limit: number | undefined;
  private wakeUp = new AbortController();
  /** Attempts of the current claim that got no answer. */
  private unanswered = 0;
  /** Whether to send waiting claims: false after the service refused one. */
  private mayWait = true;
  /** Runs of an answer that is not complete. */
  private incomplete: readonly string[] = [];
  /** Claims in a row with the answer 404. */
  private missed = { count: 0, sinceMs: 0 };
  private heartbeats = 0;
  private heartbeat = new AbortController();

  constructor(
    private readonly context: WorkerContext,
    private readonly options: ClaimOptions,
  ) {}

  /** Runs that this worker has been assigned and does not know yet, as heartbeats list them. */
  get receiving(): readonly HeldRun[] {
    const unknown = { image: '', inputs: {}, constraints: NO_CONSTRAINTS, attempt: null };
    return this.incomplete.map((id) => ({ id, ...unknown }));
  }

  /** Reports that there is room again. */
  wake(): void {
    this.wakeUp.abort();
  }

  /** Reports that the service accepted a heartbeat. */
  onHeartbeat(): void {
    this.heartbeats += 1;
    this.heartbeat.abort();
    this.heartbeat = new AbortController();
  }

  /** Runs until the signal is aborted. Still accepts the runs of an answer that arrives shortly after. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, obstacles } = this.context;
    const { tickMs, executor, throttle, retirement } = this.options;
    const backoff = new Backoff({ firstMs: tickMs, maxMs: MAX_PAUSE_MS }, random);
    signal.addEventListener('abort', () => this.wake(), { once: true });
    while (!signal.aborted) {
      this.wakeUp = new AbortController();
      const throttledMs = throttle.remainingMs();
      // A claim without an answer may have got runs.
      const reason = this.unanswered === 0 ? retirement.reason : undefined;
      if (reason !== undefined) {
        this.options.onRetired(reason);
      } else if (throttledMs > 0) {
        await clock.sleep(throttledMs, signal);
      } else if (
        !obstacles.isEmpty ||
        !executor.hasCapacity() ||
        (this.unanswered === 0 && retirement.isUsedUp)
      ) {
        await this.pause(tickMs, signal);
      } else {
        const result = await this.claim(signal);
        if (result.kind === 'failed') {
          const { heartbeats } = this;
          await clock.sleep(backoff.nextMs(result.retryAfterSeconds), signal);
          await this.untilHeartbeatAfter(heartbeats, signal);
        } else {
          backoff.reset();
          if (result.pauseMs > 0) await this.pause(result.pauseMs, signal);
        }
      }
    }
  }

  /** Sleeps, at least for the minimum pause; `wake` ends the rest. */
  private async pause(ms: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.context;
    const minMs = Math.min(ms, MIN_PAUSE_MS);
    await clock.sleep(minMs, signal);
    await clock.sleep(ms - minMs, this.wakeUp.signal);
  }

  /** A restarted service does not know this worker before a heartbeat and would hold its claim for nothing. */
  private async untilHeartbeatAfter(count: number, signal: AbortSignal): Promise<void> {
    while (this.heartbeats === count && !signal.aborted) {
      this.options.requestHeartbeat();
      await this.context.clock.sleep(MAX_PAUSE_MS, AbortSignal.any([this.heartbeat.signal, signal]));
    }
  }

  private async claim(signal: AbortSignal): Promise<ClaimResult> {
    const { clock, logger, terms } = this.context;
    const { executor, retirement } = this.options;
    const plan = this.mayWait
      ? planClaim(terms.workerTimeoutSeconds, retirement.longestWait)
      : IMMEDIATE_CLAIM;
    const startedAtMs = clock.nowMs();
    if (this.unanswered === 0) this.limit = retirement.limit(executor.claimLimit());
    const answer = await this.send(plan, signal);
    this.watchMissed(answer);
    if (answer.kind === 'unreachable') {
      if (signal.aborted) this.incomplete = [];
      else this.onUnanswered(answer.reason);
      return { kind: 'failed', retryAfterSeconds: answer.retryAfterSeconds };
    }
    if (this.unanswered > 0) logger.info({ tries: this.unanswered + 1 }, 'the claim is answered');
    this.unanswered = 0;
    this.incomplete = [];
    this.idempotencyKey = randomUUID();
    if (answer.kind === 'refused') {
      if (answer.status === 400 && plan.waitSeconds > 0) {
        this.mayWait = false;
        logger.info(
          { detail: answer.detail },
          'the service does not support waiting claims: polling once per tick',
        );
        return { kind: 'answered', pauseMs: 0 };
      }
      logger.error({ status: answer.status, detail: answer.detail }, 'the service refused a claim');
      return { kind: 'failed' };
    }
    const fresh = answer.value.filter((run) => this.options.accept(run)).length;
    retirement.recordClaims(fresh);
    const tookMs = clock.nowMs() - startedAtMs;
    const waited = plan.waitSeconds > 0 && tookMs >= plan.waitSeconds * 1000 * FULL_WAIT;
    return { kind: 'answered', pauseMs: fresh > 0 || waited ? 0 : this.options.tickMs };
  }

  /** A heartbeat is accepted between two claims that fail. */
  private watchMissed(answer: Answer<unknown>): void {
    const nowMs = this.context.clock.nowMs();
    if (answer.kind === 'ok' || answer.status !== 404) {
      this.missed = { count: 0, sinceMs: nowMs };
      return;
    }
    if (this.missed.count === 0) this.missed.sinceMs = nowMs;
    this.missed.count += 1;
    const isLong = this.missed.count >= MISSED.count && nowMs - this.missed.sinceMs >= MISSED.forMs;
    if (isLong)
      this.options.onMissed(answer.kind === 'refused' ? `HTTP 404: ${answer.detail}` : answer.reason);
  }

  /** Sends the claim. A shutdown aborts it when it waits, but not within `ANSWER_GRACE_MS` of its start. */
  private async send(plan: ClaimPlan, shutdown: AbortSignal): Promise<Answer<readonly ClaimedRun[]>> {
    const { api, clock, workerId } = this.context;
    const request = new AbortController();
    const answered = new AbortController();
    const graceEndMs = clock.nowMs() + ANSWER_GRACE_MS;
    const onShutdown = async () => {
      const graceMs = graceEndMs - clock.nowMs();
      if (graceMs > 0) await clock.sleep(graceMs, answered.signal);
      request.abort();
    };
    if (plan.waitSeconds > 0) {
      shutdown.addEventListener('abort', () => void onShutdown(), { once: true, signal: answered.signal });
    }
    try {
      return await api.claim(workerId, this.idempotencyKey, {
        ...plan,
        max: this.limit,
        signal: request.signal,
        onAssigned: (runIds) => {
          this.incomplete = this.unanswered < MAX_INCOMPLETE ? runIds : [];
        },
      });
    } finally {
      answered.abort();
    }
  }

  private onUnanswered(reason: string): void {
    const level = this.unanswered === 0 ? 'warn' : 'debug';
    this.unanswered += 1;
    if (this.unanswered >= MAX_INCOMPLETE) this.incomplete = [];
    // A newer service may come up.
    this.mayWait = true;
    this.context.logger[level]({ reason }, 'no answer to the claim, repeating it under the same key');
  }
}
