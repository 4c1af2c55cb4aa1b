import type { Clock } from '../process/clock.js';

export interface RetirementSettings {
  /** Seconds without a run after which the worker ends; 0: never. */
  readonly exitIdleSeconds: number;
  /** Runs after which the worker ends; 0: never. */
  readonly maxTotal: number;
}

/** When a worker ends by itself. Runs that an earlier process claimed count as work, and not for the total. */
export class Retirement {
  private claimed = 0;
  private idleSinceMs: number;

  /** @param isBusy whether a run is being executed, or its end is still to be reported */
  constructor(
    private readonly clock: Clock,
    private readonly settings: RetirementSettings,
    private readonly isBusy: () => boolean,
  ) {
    this.idleSinceMs = clock.nowMs();
  }

  /** Reports that the worker has no run, but may get some, from now on. */
  restartIdleTime(): void {
    this.idleSinceMs = this.clock.nowMs();
  }

  recordClaims(runs: number): void {
    this.claimed += runs;
  }

  /** Why the worker has nothing more to do; undefined: it goes on. */
  get reason(): string | undefined {
    const { exitIdleSeconds, maxTotal } = this.settings;
    if (this.isBusy()) return undefined;
    if (this.isUsedUp) return `it has executed SERVICE_WORKER_MAX_TOTAL runs: ${maxTotal}`;
    return exitIdleSeconds > 0 && this.remainingMs <= 0
      ? `it has had no run for SERVICE_WORKER_EXIT_IDLE seconds: ${exitIdleSeconds}`
      : undefined;
  }

  /** Whether no more runs are to be claimed. */
  get isUsedUp(): boolean {
    return this.settings.maxTotal > 0 && this.claimed >= this.settings.maxTotal;
  }

  /** How many runs a claim may get. @param wanted undefined: the service decides, which gives one */
  limit(wanted: number | undefined): number | undefined {
    const { maxTotal } = this.settings;
    return maxTotal === 0 ? wanted : Math.min(wanted ?? 1, maxTotal - this.claimed);
  }

  /** How long a claim may wait at most: the worker does not end while one is open. In seconds; Infinity: any time. */
  get longestWait(): number {
    return this.settings.exitIdleSeconds === 0 || this.isBusy() ? Infinity : this.remainingMs / 1000;
  }

  private get remainingMs(): number {
    return this.idleSinceMs + this.settings.exitIdleSeconds * 1000 - this.clock.nowMs();
  }
}
