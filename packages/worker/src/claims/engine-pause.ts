import type { Logger } from 'pino';
import { Backoff } from '@longshore/common/backoff';
import type { Clock } from '../clock.js';
import { errorText } from '../execution/failure-message.js';

const PAUSE = { firstMs: 1000, maxMs: 30_000 };

export interface EnginePauseOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
  /** @throws Error that says why the engine cannot execute anything now */
  readonly probe: () => Promise<void>;
  readonly onResume: () => void;
  /** Ends a pause for good. */
  readonly signal: AbortSignal;
}

/**
 * Pauses claims after a failure of the engine until a probe succeeds. Then one run at a time is claimed until the
 * container of one starts or its job is submitted. Pauses grow with each failure before that.
 */
export class EnginePause {
  private readonly backoff: Backoff;
  private state: 'working' | 'paused' | 'on trial' = 'working';
  private reason: string | null = null;
  /** Runs claimed since the failure. */
  private readonly trials = new Set<object>();

  constructor(private readonly options: EnginePauseOptions) {
    this.backoff = new Backoff(PAUSE, options.random);
  }

  /** Why no runs are claimed now, fit for a run's error_message; null: they are. */
  get pausedBecause(): string | null {
    return this.state === 'paused' ? this.reason : null;
  }

  get allowsClaims(): boolean {
    return this.state === 'working' || (this.state === 'on trial' && this.trials.size === 0);
  }

  recordClaim(execution: object): void {
    if (this.state !== 'working') this.trials.add(execution);
  }

  recordEnd(execution: object): void {
    this.trials.delete(execution);
  }

  /** The container of a run has started, or its job is submitted. */
  recordStart(): void {
    if (this.state !== 'on trial') return;
    this.state = 'working';
    this.backoff.reset();
    this.trials.clear();
    this.options.onResume();
  }

  /** @param reason fit for a run's error_message */
  recordFault(reason: string): void {
    this.reason = reason;
    if (this.state !== 'paused') void this.pause();
  }

  private async pause(): Promise<void> {
    const { clock, logger, signal, onResume } = this.options;
    const startedAtMs = clock.nowMs();
    this.state = 'paused';
    logger.warn({ reason: this.reason }, 'the container engine failed: no claims until a probe succeeds');
    for (let tries = 1; !signal.aborted; tries++) {
      await clock.sleep(this.backoff.nextMs(), signal);
      if (signal.aborted || (await this.succeeds(tries))) break;
    }
    if (signal.aborted) return;
    this.state = 'on trial';
    logger.info({ pausedMs: Math.round(clock.nowMs() - startedAtMs) }, 'a probe succeeded: claiming again');
    onResume();
  }

  private async succeeds(tries: number): Promise<boolean> {
    try {
      await this.options.probe();
      return true;
    } catch (error) {
      const level = tries === 1 ? 'warn' : 'info';
      const fields = { error: errorText(error), tries };
      this.options.logger[level](fields, 'the probe failed: still no claims');
      return false;
    }
  }
}
