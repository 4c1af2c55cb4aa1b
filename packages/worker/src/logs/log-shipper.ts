import type { Logger } from 'pino';
import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '@longshore/common/backoff';
import type { OutputCursors, OutputEnds } from '../runtime/runtime.js';
import { LogChunker, type TakenChunk } from './log-chunker.js';
import type { LogPosition, Refusal, ShippedLine } from '../service-api/service-api.js';
import { whenAborted } from '../process/clock.js';

const RETRY = { firstMs: 500, maxMs: 15_000 };

/** How long a line waits for others in the same chunk, in milliseconds. */
const BATCH_MS = 750;

/** How long lines wait for a service that does not answer a chunk, from the end of its first request on, in milliseconds. */
const PATIENCE_MS = 3_000;

/** Consecutive refused chunks after which shipping stops. */
const MAX_REFUSED = 3;

export interface ShipperOptions {
  readonly runId: string;
  /** 1-based. */
  readonly attempt: number;
  readonly logger: Logger;
  /**
   * Whether another process of this worker may ship the same lines, before this one or at the same time: then this one
   * continues where the stored log ends. Otherwise it stops when the service has chunks of another writer.
   */
  readonly isShared: boolean;
  /** Where an earlier process of this worker has ended; null: there was none. */
  readonly from: LogPosition | null;
}

/**
 * Ships the log of one attempt in numbered chunks, one at a time, each repeated until it is acknowledged. Lines that are
 * pushed without waiting for `untilTakesLines` may be dropped. A refused log does not affect the run, its events or heartbeats.
 */
export class LogShipper {
  /** Resolves when everything is shipped or the shipper is closed. */
  readonly done: Promise<void>;
  /** Number of lines that were stored before the first chunk of this process; 0 when that chunk is refused. */
  readonly storedLines: Promise<number>;
  /** Sent with each chunk; null: no later process goes on with the output. */
  private cursors: OutputCursors | null = null;
  private readonly chunker: LogChunker;
  private readonly closing = new AbortController();
  private wake = new AbortController();
  /** When the oldest waiting line arrived; null: no line waits. */
  private sinceMs: number | null = null;
  private number: number;
  /** Whether a chunk of an earlier process may be on its way. */
  private mayBeFollowed: boolean;
  private refused = 0;
  /** When the first request of the chunk that is being sent ended without an answer; null: it has not. */
  private unansweredSinceMs: number | null = null;
  private noteProgress: () => void = () => undefined;
  private learnStored: (lines: number) => void = () => undefined;

  constructor(
    private readonly context: WorkerContext,
    private readonly options: ShipperOptions,
  ) {
    const { from } = options;
    this.chunker = new LogChunker(undefined, from?.nextLine);
    this.number = from?.nextChunk ?? 0;
    this.mayBeFollowed = from !== null;
    this.storedLines = new Promise((resolve) => {
      this.learnStored = resolve;
    });
    this.done = this.shipAll();
  }

  /** Number of lines so far; longer ones are several. */
  get lineCount(): number {
    return this.chunker.lineCount;
  }

  /** Whether it ships nothing more. */
  get isClosed(): boolean {
    return this.closing.signal.aborted;
  }

  /** Counts the output, so that a later process can go on with it. @param stored by earlier ones */
  count(cursors: OutputCursors, stored: OutputEnds): void {
    this.cursors = cursors;
    this.chunker.goOnFrom(stored);
  }

  /** Adds a line, unless the shipper is closed. */
  push(line: ShippedLine): void {
    if (this.closing.signal.aborted) return;
    this.chunker.push(line);
    // A stored line is dropped.
    if (this.chunker.isEmpty) return;
    const isFirst = this.sinceMs === null;
    this.sinceMs ??= this.context.clock.nowMs();
    if (isFirst || this.chunker.isChunkReady) this.wakeUp();
  }

  /** Whether the next line is shipped without another being dropped, or the service has not answered for a time. */
  get takesLines(): boolean {
    return this.closing.signal.aborted || this.chunker.hasRoom || this.unansweredMs >= PATIENCE_MS;
  }

  /** Resolves when `takesLines` is true, so that the container is as fast as its log is stored. */
  async untilTakesLines(): Promise<void> {
    const { clock } = this.context;
    while (!this.takesLines) {
      const progress = new AbortController();
      this.noteProgress = () => progress.abort();
      await clock.sleep(PATIENCE_MS - this.unansweredMs, progress.signal);
    }
  }

  /** For how long the chunk that is being sent is repeated without an answer, in milliseconds. */
  get unansweredMs(): number {
    const nowMs = this.context.clock.nowMs();
    return nowMs - (this.unansweredSinceMs ?? nowMs);
  }

  /** Sends the rest at once, marked as the end of the log. */
  end(): void {
    this.chunker.end();
    this.wakeUp();
  }

  /** Drops the waiting lines. The last chunk is still sent: it tells readers that the log has ended. */
  dropWaiting(): void {
    this.chunker.dropWaiting();
    this.noteProgress();
    this.wakeUp();
  }

  /** Stops shipping and drops the rest. */
  close(): void {
    this.closing.abort();
    this.learnStored(0);
    this.noteProgress();
    this.wakeUp();
  }

  private wakeUp(): void {
    // Aborting twice would create another error object.
    if (!this.wake.signal.aborted) this.wake.abort();
  }

  private async shipAll(): Promise<void> {
    while (!this.isClosed) {
      await this.untilDue();
      const chunk = this.isClosed ? null : this.chunker.take();
      this.sinceMs = this.chunker.isEmpty ? null : this.context.clock.nowMs();
      if (chunk === null) continue;
      await this.ship(chunk);
      this.unansweredSinceMs = null;
      this.noteProgress();
    }
  }

  private async untilDue(): Promise<void> {
    const { clock } = this.context;
    while (!this.isClosed && !this.chunker.isChunkReady) {
      const leftMs = this.sinceMs === null ? null : this.sinceMs + BATCH_MS - clock.nowMs();
      if (leftMs !== null && leftMs <= 0) return;
      this.wake = new AbortController();
      const { signal } = this.wake;
      if (leftMs !== null) await clock.sleep(leftMs, signal);
      else await whenAborted(signal);
    }
  }

  /** Sends one chunk until the service accepts or refuses it. */
  private async ship(chunk: TakenChunk): Promise<void> {
    const { api, clock, random, workerId } = this.context;
    const { runId, attempt, logger } = this.options;
    const { endsOfLines, ...lines } = chunk;
    const [ends, last] = [endsOfLines.at(-1), lines.lines.at(-1)];
    const cursor = ends && last ? this.cursors?.write(ends, last.atMs) : undefined;
    const sent = { ...lines, cursor };
    const address = { runId, attempt, workerId, number: this.number };
    const backoff = new Backoff(RETRY, random);
    for (let tries = 1; !this.isClosed; tries++) {
      const answer = await api.putLogChunk(address, sent, this.closing.signal);
      if (this.isClosed) return;
      switch (answer.kind) {
        case 'ok':
          if (tries > 1) logger.info({ chunk: this.number, tries }, 'log chunk delivered');
          this.onAccepted(chunk, cursor, answer.value);
          return;
        case 'refused':
          this.onRefused(chunk, answer);
          return;
        case 'unreachable':
          this.unansweredSinceMs ??= clock.nowMs();
          if (tries === 1) {
            logger.warn({ chunk: this.number, reason: answer.reason }, 'log chunk not delivered, retrying');
          }
          await clock.sleep(backoff.nextMs(answer.retryAfterSeconds), this.closing.signal);
      }
    }
  }

  /** @param sent with the chunk */
  private onAccepted(
    chunk: TakenChunk,
    sent: string | undefined,
    { nextChunk, nextLine, cursor }: LogPosition,
  ): void {
    this.number += 1;
    this.refused = 0;
    const isOurs = nextChunk === this.number && nextLine === chunk.firstLine + chunk.lines.length;
    const { mayBeFollowed } = this;
    this.mayBeFollowed = false;
    this.learnStored(isOurs ? 0 : nextLine);
    if (this.options.isShared && !isOurs) {
      this.number = nextChunk;
      this.chunker.resumeAt(nextLine, chunk);
      if (this.chunker.isEmpty) this.sinceMs = null;
    } else if (mayBeFollowed && cursor !== undefined && sent !== undefined && cursor !== sent) {
      const stored = this.cursors?.read(cursor) ?? null;
      this.number = nextChunk;
      if (stored !== null) this.chunker.goOnAfter(nextLine, stored, chunk);
    } else if (nextChunk !== this.number) {
      // Another writer: the service would ignore or refuse our chunks.
      this.giveUp({ expected: nextChunk, chunk: this.number });
    } else if (chunk.isLast) {
      this.close();
    }
  }

  private onRefused(chunk: TakenChunk, { status, detail }: Refusal): void {
    if (status === 413 && chunk.lines.length > 1) {
      this.chunker.split(chunk);
      return;
    }
    this.refused += 1;
    if ((status === 413 || status === 400) && this.refused < MAX_REFUSED) {
      const lines = chunk.lines.length;
      this.options.logger.warn({ status, detail, lines }, 'the service refused lines of the log');
      this.chunker.drop(chunk);
      this.learnStored(0);
      return;
    }
    this.giveUp({ status, detail });
  }

  private giveUp(why: object): void {
    this.options.logger.info(why, 'the service refuses the log, shipping stops');
    this.close();
  }
}
