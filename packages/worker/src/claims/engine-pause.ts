import type { Logger } from 'pino';
import { Backoff } from '@longshore/common/backoff';
import type { Clock } from '../process/clock.js';
import type { ClaimObstacles } from './claim-obstacles.js';
import { errorText } from '@longshore/common/errors';
import { EngineFault } from '../runtime/runtime.js';

/** What engines and operating systems say of a full disk. */
const DISK_FULL = /disk is full|no space left|ENOSPC|EDQUOT/i;

const PAUSE = { firstMs: 1000, maxMs: 30_000 };

export interface EnginePauseOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
  readonly obstacles: ClaimObstacles;
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
  /** Runs claimed since the failure. */
  private readonly trials = new Set<object>();

  constructor(private readonly options: EnginePauseOptions) {
    this.backoff = new Backoff(PAUSE, options.random);
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

  /** @param reason one line without secrets, which heartbeats tell */
  recordFault(reason: string): void {
    if (this.state !== 'paused') void this.pause(reason);
  }

  private async pause(reason: string): Promise<void> {
    const { clock, logger, signal, onResume } = this.options;
    const startedAtMs = clock.nowMs();
    this.state = 'paused';
    this.tell(reason);
    logger.warn({ reason }, 'the container engine failed: no claims until a probe succeeds');
    for (let tries = 1; !signal.aborted; tries++) {
      await clock.sleep(this.backoff.nextMs(), signal);
      if (signal.aborted || (await this.succeeds(tries))) break;
    }
    if (signal.aborted) return;
    this.state = 'on trial';
    this.options.obstacles.clear('engine_paused', 'disk_full');
    logger.info({ pausedMs: Math.round(clock.nowMs() - startedAtMs) }, 'a probe succeeded: claiming again');
    onResume();
  }

  /** Sets the reason of the pause, in place of the one before. */
  private tell(message: string): void {
    const { obstacles } = this.options;
    const isFull = DISK_FULL.test(message);
    obstacles.clear(isFull ? 'engine_paused' : 'disk_full');
    obstacles.set(isFull ? 'disk_full' : 'engine_paused', message);
  }

  private async succeeds(tries: number): Promise<boolean> {
    try {
      await this.options.probe();
      return true;
    } catch (error) {
      const level = tries === 1 ? 'warn' : 'info';
      const fields = { error: errorText(error), tries };
      // Other words may hold paths of the machine.
      if (error instanceof EngineFault) this.tell(error.message);
      this.options.logger[level](fields, 'the probe failed: still no claims');
      return false;
    }
  }
}
