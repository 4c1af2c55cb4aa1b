import { randomUUID } from 'node:crypto';
import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '../backoff.js';
import { PLAIN_CLAIM, planClaim, type ClaimPlan } from './claim-plan.js';
import { isKeyRefusal, type Answer, type ClaimedRun } from '../service-api/service-api.js';

const MAX_PAUSE_MS = 10_000;

/** Least time between two claims that are not the continuation of a fruitful one, in milliseconds. */
const LEAST_PAUSE_MS = 100;

/** How long a waiting claim may be on its way before a shutdown takes it for one that found no work, in milliseconds. */
const PROMPT_MS = 1000;

/** The part of its wait after which an empty answer counts as waited for. */
const WAITED = 0.9;

/** What claiming works with. */
export interface ClaimOptions {
  readonly tickMs: number;
  /** Whether another run could be started now. */
  readonly hasRoom: () => boolean;
  /** How long no run is to be claimed, in milliseconds; 0 when one may be. */
  readonly holdBackMs: () => number;
  /** Seconds of silence after which the service gives this worker up, as far as known. */
  readonly workerTimeoutSeconds: () => number;
  /** @returns whether the run is new to this worker */
  readonly accept: (run: ClaimedRun) => boolean;
}

type ClaimResult =
  /** `restMs`: how long to leave the service alone. */
  | { readonly kind: 'answered'; readonly restMs: number }
  | { readonly kind: 'failed'; readonly retryAfterSeconds?: number | undefined };

/**
 * Asks for work whenever there is room, by a claim that the service holds until there is some. After an empty answer
 * that came early the service is left alone for a tick, or until room is made.
 *
 * A shutdown breaks a waiting claim off and asks no more. The service hands nothing out to a closed connection, but for
 * the few milliseconds in which the two cross. A run that is handed out in those comes back through the reaper: late,
 * but without costing a try. Asking once more under the same key would find it, and would as easily bring a new run to a
 * worker that has no time left for it; that run would end FAILED, which its retry policy may not allow for at all.
 */
export class ClaimLoop {
  private idempotencyKey = randomUUID();
  private nudge = new AbortController();
  /** Tries of the present claim that got no answer. */
  private unanswered = 0;
  /** Whether the service is believed to know claims that wait. */
  private mayWait = true;
  private heartbeats = 0;
  private heartbeat = new AbortController();

  constructor(
    private readonly context: WorkerContext,
    private readonly options: ClaimOptions,
  ) {}

  /** Says that there is room again. */
  wake(): void {
    this.nudge.abort();
  }

  /** Says that the service has taken a heartbeat. */
  noteHeartbeat(): void {
    this.heartbeats += 1;
    this.heartbeat.abort();
    this.heartbeat = new AbortController();
  }

  /** Runs until the signal is aborted. A claim that is about to be answered then is waited for: its runs are ours. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.context;
    const { tickMs, hasRoom, holdBackMs } = this.options;
    const backoff = new Backoff({ firstMs: tickMs, maxMs: MAX_PAUSE_MS }, random);
    signal.addEventListener('abort', () => this.wake(), { once: true });
    while (!signal.aborted) {
      this.nudge = new AbortController();
      const heldBackMs = holdBackMs();
      if (heldBackMs > 0) {
        await clock.sleep(heldBackMs, signal);
        continue;
      }
      if (!hasRoom()) {
        await this.pause(tickMs, signal);
        continue;
      }
      const result = await this.claim(signal);
      if (result.kind === 'failed') {
        const { heartbeats } = this;
        await clock.sleep(backoff.nextMs(result.retryAfterSeconds), signal);
        await this.untilHeartbeatAfter(heartbeats, signal);
        continue;
      }
      backoff.reset();
      if (result.restMs > 0) await this.pause(result.restMs, signal);
    }
  }

  /** Waits for the time to pass or for room to be made, but never so short that claims become a storm. */
  private async pause(ms: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.context;
    const leastMs = Math.min(ms, LEAST_PAUSE_MS);
    await clock.sleep(leastMs, signal);
    await clock.sleep(ms - leastMs, this.nudge.signal);
  }

  /** A service that comes back does not know this worker before its heartbeat, and would make its claim wait in vain. */
  private async untilHeartbeatAfter(count: number, signal: AbortSignal): Promise<void> {
    while (this.heartbeats === count && !signal.aborted) {
      await this.context.clock.sleep(MAX_PAUSE_MS, AbortSignal.any([this.heartbeat.signal, signal]));
    }
  }

  private async claim(signal: AbortSignal): Promise<ClaimResult> {
    const { clock, logger, onKeyRefused } = this.context;
    const plan = this.mayWait ? planClaim(this.options.workerTimeoutSeconds()) : PLAIN_CLAIM;
    const askedAtMs = clock.nowMs();
    const answer = await this.ask(plan, signal);
    if (answer.kind === 'unreachable') {
      if (!signal.aborted) this.noteUnanswered(answer.reason);
      return { kind: 'failed', retryAfterSeconds: answer.retryAfterSeconds };
    }
    if (this.unanswered > 0) logger.info({ tries: this.unanswered + 1 }, 'the claim is answered');
    this.unanswered = 0;
    this.idempotencyKey = randomUUID();
    if (answer.kind === 'refused') {
      if (answer.status === 400 && plan.waitSeconds > 0) {
        this.mayWait = false;
        logger.info({ detail: answer.detail }, 'the service knows no waiting claims: asking once a tick');
        return { kind: 'answered', restMs: 0 };
      }
      if (isKeyRefusal(answer)) onKeyRefused(answer);
      logger.error({ status: answer.status, detail: answer.detail }, 'the service refused a claim');
      return { kind: 'failed' };
    }
    const fresh = answer.value.filter((run) => this.options.accept(run)).length;
    const tookMs = clock.nowMs() - askedAtMs;
    const waited = plan.waitSeconds > 0 && tookMs >= plan.waitSeconds * 1000 * WAITED;
    return { kind: 'answered', restMs: fresh > 0 || waited ? 0 : this.options.tickMs };
  }

  /** Sends the claim; breaks it off at a shutdown unless it may be answered right now. */
  private async ask(plan: ClaimPlan, shutdown: AbortSignal): Promise<Answer<readonly ClaimedRun[]>> {
    const { api, clock, workerId } = this.context;
    const breakOff = new AbortController();
    const answered = new AbortController();
    const promptUntilMs = clock.nowMs() + PROMPT_MS;
    const onShutdown = async () => {
      const leftMs = promptUntilMs - clock.nowMs();
      if (leftMs > 0) await clock.sleep(leftMs, answered.signal);
      breakOff.abort();
    };
    if (plan.waitSeconds > 0) {
      shutdown.addEventListener('abort', () => void onShutdown(), { once: true, signal: answered.signal });
    }
    try {
      return await api.claim(workerId, this.idempotencyKey, { ...plan, signal: breakOff.signal });
    } finally {
      answered.abort();
    }
  }

  private noteUnanswered(reason: string): void {
    const level = this.unanswered === 0 ? 'warn' : 'debug';
    this.unanswered += 1;
    // What comes back may be a newer service.
    this.mayWait = true;
    this.context.logger[level]({ reason }, 'no answer to the claim, asking again under the same key');
  }
}
