import { randomUUID } from 'node:crypto';
import type { AgentContext } from './agent-context.js';
import { Backoff } from './backoff.js';
import { isKeyRefusal, type ClaimedRun } from './service-api.js';

const MAX_PAUSE_MS = 10_000;

/** Least time between two claims that are not the continuation of a fruitful one, in milliseconds. */
const LEAST_PAUSE_MS = 100;

/** What claiming works with. */
export interface ClaimOptions {
  readonly tickMs: number;
  /** Whether another run could be started now. */
  readonly hasRoom: () => boolean;
  /** How long to hold back because of what became of the last runs, in milliseconds. */
  readonly holdBackMs: () => number;
  /** @returns whether the run is new to this worker */
  readonly accept: (run: ClaimedRun) => boolean;
}

/** Asks for work whenever there is room: once a tick, at once after a claim that brought some, and when room is made. */
export class ClaimLoop {
  private idempotencyKey = randomUUID();
  private nudge = new AbortController();
  /** Tries of the present claim that got no answer. */
  private unanswered = 0;

  constructor(
    private readonly context: AgentContext,
    private readonly options: ClaimOptions,
  ) {}

  /** Says that there is room again. */
  wake(): void {
    this.nudge.abort();
  }

  /**
   * Runs until the signal is aborted. A claim on its way then is waited for, because its runs are ours.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random } = this.context;
    const backoff = new Backoff({ firstMs: this.options.tickMs, maxMs: MAX_PAUSE_MS }, random);
    signal.addEventListener('abort', () => this.wake(), { once: true });
    while (!signal.aborted) {
      this.nudge = new AbortController();
      if (!this.options.hasRoom()) {
        await this.pause(this.options.tickMs, signal);
        continue;
      }
      const result = await this.claim();
      if (result.kind === 'failed') {
        await clock.sleep(backoff.nextMs(result.retryAfterSeconds), signal);
        continue;
      }
      backoff.reset();
      const holdBackMs = this.options.holdBackMs();
      const tickMs = result.fresh === 0 ? this.options.tickMs : 0;
      if (holdBackMs > 0) await clock.sleep(Math.max(holdBackMs, tickMs), signal);
      else if (tickMs > 0) await this.pause(tickMs, signal);
    }
  }

  /** Waits for the time to pass or for room to be made, but never so short that claims become a storm. */
  private async pause(ms: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.context;
    const leastMs = Math.min(ms, LEAST_PAUSE_MS);
    await clock.sleep(leastMs, signal);
    await clock.sleep(ms - leastMs, this.nudge.signal);
  }

  private async claim(): Promise<
    | { readonly kind: 'done'; readonly fresh: number }
    | { readonly kind: 'failed'; readonly retryAfterSeconds?: number | undefined }
  > {
    const { api, logger, workerId, onKeyRefused } = this.context;
    const answer = await api.claim(workerId, this.idempotencyKey);
    if (answer.kind === 'unreachable') {
      const level = this.unanswered === 0 ? 'warn' : 'debug';
      this.unanswered += 1;
      logger[level]({ reason: answer.reason }, 'no answer to the claim, asking again under the same key');
      return { kind: 'failed', retryAfterSeconds: answer.retryAfterSeconds };
    }
    if (this.unanswered > 0) logger.info({ tries: this.unanswered + 1 }, 'the claim is answered');
    this.unanswered = 0;
    this.idempotencyKey = randomUUID();
    if (answer.kind === 'refused') {
      if (isKeyRefusal(answer)) onKeyRefused(answer);
      logger.error({ status: answer.status, detail: answer.detail }, 'the service refused a claim');
      return { kind: 'failed' };
    }
    return { kind: 'done', fresh: answer.value.filter((run) => this.options.accept(run)).length };
  }
}
