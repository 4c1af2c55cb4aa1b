import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import { engineMessage, withLimit } from '../engine/docker-engine.js';
import { PullError } from '../engine/engine-verdict.js';
import type { RuntimeLog } from '../../runtime.js';

const PING_MS = 10_000;

/** When a pull is repeated and when it is given up, in milliseconds. */
export interface PullTiming {
  /** Pauses before an answer that would be the image's fault is asked for again. */
  readonly retryMs: readonly number[];
  /** Interval of lines about the progress in the worker's log. A pull without a report since is a silent one. */
  readonly intervalMs: number;
  /** How long a silent pull may last while the engine does not answer. */
  readonly awayMs: number;
  /** How long a pull may be silent while the engine answers; 0: for ever. */
  readonly silentMs: number;
}

export const PULL_TIMING: PullTiming = {
  retryMs: [1_000, 4_000],
  intervalMs: 30_000,
  awayMs: 120_000,
  silentMs: 0,
};

interface Watched {
  readonly image: string;
  readonly timing: PullTiming;
  readonly log: RuntimeLog;
}

/**
 * Follows the report of a pull. Silence alone does not end it: an engine extracts large layers and waits for free downloads
 * without a word. Asks a silent engine whether it is alive.
 */
export class PullWatch {
  private readonly ended = new AbortController();
  private readonly givenUp = new AbortController();
  private readonly layers = new Map<string, string>();
  private readonly startedAt = performance.now();
  private heardAt = this.startedAt;
  /** The engine's last sign of life. */
  private aliveAt = this.startedAt;

  constructor(
    private readonly engine: Dockerode,
    private readonly watched: Watched,
  ) {
    void this.watch();
  }

  /** Aborted, with the error to throw, when the pull is given up. */
  get signal(): AbortSignal {
    return this.givenUp.signal;
  }

  /** Reads a line of the report. @returns the error in it, or null */
  read(line: string): string | null {
    this.heardAt = this.aliveAt = performance.now();
    const { id, status, error } = parsed(line);
    if (typeof id === 'string' && typeof status === 'string') this.layers.set(id, status);
    return typeof error === 'string' ? error : null;
  }

  end(): void {
    this.ended.abort();
  }

  private async watch(): Promise<void> {
    const { intervalMs, awayMs, silentMs } = this.watched.timing;
    const { signal } = this.ended;
    for (;;) {
      await sleep(intervalMs, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      if (performance.now() - this.heardAt >= intervalMs) await this.ping();
      if (signal.aborted) return;
      this.report();
      const now = performance.now();
      if (now - this.aliveAt >= awayMs) this.giveUp(new Error(`no answer for ${awayMs / 1000} s`));
      else if (silentMs > 0 && now - this.heardAt >= silentMs)
        this.giveUp(new PullError(`no progress for ${silentMs / 1000} s`));
    }
  }

  private async ping(): Promise<void> {
    try {
      await withLimit(PING_MS, 'ping', () => this.engine.ping());
      this.aliveAt = performance.now();
    } catch (error) {
      const { log, image } = this.watched;
      log.warn({ image, error: engineMessage(error) }, 'the container engine does not answer during a pull');
    }
  }

  private report(): void {
    const { log, image } = this.watched;
    const states: Record<string, number> = {};
    for (const status of this.layers.values()) states[status] = (states[status] ?? 0) + 1;
    const seconds = Math.round((performance.now() - this.startedAt) / 1000);
    const silentSeconds = Math.round((performance.now() - this.heardAt) / 1000);
    log.info({ image, seconds, silentSeconds, layers: states }, 'pulling the image');
  }

  private giveUp(why: Error): void {
    this.ended.abort();
    this.givenUp.abort(why);
  }
}

function parsed(line: string): {
  readonly id?: unknown;
  readonly status?: unknown;
  readonly error?: unknown;
} {
  try {
    return Object(JSON.parse(line));
  } catch {
    return {};
  }
}
