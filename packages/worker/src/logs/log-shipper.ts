import type { Logger } from 'pino';
import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '../backoff.js';
import { LogChunker } from './log-chunker.js';
import type { LogChunk, Refusal, ShippedLine } from '../service-api/service-api.js';

const RETRY = { firstMs: 500, maxMs: 15_000 };

/** How long a line waits for others to share its chunk with, in milliseconds. */
const GATHER_MS = 750;

/** Chunks in a row that the service may find wrong before no more are sent. */
const MAX_REFUSED = 3;

/** The attempt whose log is shipped. */
export interface ShipperOptions {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly logger: Logger;
}

/**
 * Ships the log of one attempt to the service: numbered chunks, one under way at a time, each repeated until it is
 * acknowledged. Taking lines never waits. Whatever the service says to a log ends at most the shipping of it: run, events and
 * heartbeats go on.
 */
export class LogShipper {
  /** Resolves when the service has everything, or when nothing more is sent. */
  readonly done: Promise<void>;
  private readonly chunker = new LogChunker();
  private readonly closing = new AbortController();
  private wake = new AbortController();
  /** When the oldest line that waits was taken, as far as it matters. */
  private sinceMs: number | null = null;
  private number = 0;
  private refused = 0;

  constructor(
    private readonly context: WorkerContext,
    private readonly options: ShipperOptions,
  ) {
    this.done = this.work();
  }

  /** Takes a line; after `end` and `close` it is dropped. */
  push(line: ShippedLine): void {
    if (this.closing.signal.aborted) return;
    this.chunker.push(line);
    const isFirst = this.sinceMs === null;
    this.sinceMs ??= this.context.clock.nowMs();
    if (isFirst || this.chunker.hasEnough) this.wakeUp();
  }

  /** Says that no line comes any more: what is there is sent at once, marked as the end. */
  end(): void {
    this.chunker.end();
    this.wakeUp();
  }

  /** Sends nothing more and forgets what waits. */
  close(): void {
    this.closing.abort();
    this.wakeUp();
  }

  private get isClosed(): boolean {
    return this.closing.signal.aborted;
  }

  private wakeUp(): void {
    // Every abort makes an error object, also of a signal that is aborted already.
    if (!this.wake.signal.aborted) this.wake.abort();
  }

  private async work(): Promise<void> {
    while (!this.isClosed) {
      await this.untilDue();
      const chunk = this.isClosed ? null : this.chunker.take();
      if (chunk === null) continue;
      this.sinceMs = this.chunker.isEmpty ? null : this.context.clock.nowMs();
      await this.ship(chunk);
    }
  }

  private async untilDue(): Promise<void> {
    const { clock } = this.context;
    while (!this.isClosed && !this.chunker.hasEnough) {
      const leftMs = this.sinceMs === null ? null : this.sinceMs + GATHER_MS - clock.nowMs();
      if (leftMs !== null && leftMs <= 0) return;
      this.wake = new AbortController();
      const { signal } = this.wake;
      if (leftMs !== null) await clock.sleep(leftMs, signal);
      else await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    }
  }

  /** One chunk, until there is an answer. */
  private async ship(chunk: LogChunk): Promise<void> {
    const { api, clock, random, workerId } = this.context;
    const { runId, attempt, logger } = this.options;
    const address = { runId, attempt, workerId, number: this.number };
    const backoff = new Backoff(RETRY, random);
    for (let tries = 1; !this.isClosed; tries++) {
      const answer = await api.putLogChunk(address, chunk, this.closing.signal);
      if (this.isClosed) return;
      switch (answer.kind) {
        case 'ok':
          if (tries > 1) logger.info({ chunk: this.number, tries }, 'log delivered after all');
          this.onTaken(chunk, answer.value.nextChunk);
          return;
        case 'refused':
          this.onRefused(chunk, answer);
          return;
        case 'unreachable':
          if (tries === 1) {
            logger.warn({ chunk: this.number, reason: answer.reason }, 'log not delivered yet, trying on');
          }
          await clock.sleep(backoff.nextMs(answer.retryAfterSeconds), this.closing.signal);
      }
    }
  }

  private onTaken({ isLast }: LogChunk, nextChunk: number): void {
    this.number += 1;
    this.refused = 0;
    if (nextChunk !== this.number) {
      // Somebody else writes this log: what we send would be taken for a repetition, or refused.
      this.giveUp({ expected: nextChunk, chunk: this.number });
    } else if (isLast) {
      this.close();
    }
  }

  private onRefused(chunk: LogChunk, { status, detail }: Refusal): void {
    if (status === 413 && chunk.lines.length > 1) {
      this.chunker.split(chunk);
      return;
    }
    this.refused += 1;
    if ((status === 413 || status === 400) && this.refused < MAX_REFUSED) {
      const lines = chunk.lines.length;
      this.options.logger.warn({ status, detail, lines }, 'the service refused lines of the log');
      this.chunker.leaveOut(chunk);
      return;
    }
    this.giveUp({ status, detail });
  }

  /** A refused key is left to the heartbeats: no log is worth the worker's runs. */
  private giveUp(why: object): void {
    this.options.logger.info(why, 'the service takes no more of the log');
    this.close();
  }
}
