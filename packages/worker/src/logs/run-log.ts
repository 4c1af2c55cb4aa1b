import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { WorkerContext } from '../worker-context.js';
import type { EventSender } from '../execution/event-sender.js';
import { errorText } from '@longshore/common/errors';
import { EventCap, type EventLimits, EventForwarder, type RecordedEvents } from './event-forwarder.js';
import { maskedEvent, parseLogEvent, tooLongEvent, LineJoiner, type JoinedLine } from './log-events.js';
import { LogShipper, type ShipperOptions } from './log-shipper.js';
import { keptText, LogTail } from './log-tail.js';
import type { LogLine, OutputCursors, OutputEnds } from '../runtime/runtime.js';
import { maskLines } from '../secrets/mask-lines.js';
import type { RunEvent } from '../service-api/service-api.js';
import type { SecretMask } from '../secrets/secret-mask.js';

/** How long the report of a run's end waits for the log, in milliseconds. */
const FLUSH_MS = 1_500;

/** How long the rest of a log is shipped after the end of its run, in milliseconds; shorter for a service that does not answer. */
const SHIP_REST_MS = { all: 60_000, unanswered: 15_000 };

/** How long the last chunk is sent after that, in milliseconds. */
const SHIP_END_MS = 600_000;

/** Prefix of the lines that the worker adds to the log of a run. */
export const WORKER_PREFIX = '[worker]';

/** How long lines are read before timers and heartbeats run, in milliseconds. */
const SLICE_MS = 10;

/** Longest part of a container's line in the worker's own log, in UTF-16 units. */
const MAX_LOGGED = 2000;

/** Receives the events of a log. */
export interface EventSink {
  readonly sender: EventSender;
  /** Applied to every line and every event. */
  readonly mask: SecretMask;
  /** Aborted when events are no longer forwarded. */
  readonly signal: AbortSignal;
  /** Of a log that another process may have read before; absent: no other does. */
  readonly rereading?: Rereading;
}

/** How a log is read that gives the same lines each time, or the same bytes. */
interface Rereading {
  /** Idempotency key of the event in a line. @param number of the line, or its part, 0-based */
  readonly keyOf: (number: number, line: LogLine) => string;
  /**
   * Whether an earlier process has read it. Of the events in lines that the service has stored, only the last are sent again:
   * those that may have waited for an answer.
   */
  readonly isRepeated: boolean;
  /** What the earlier process has sent is not sent again. */
  readonly recorded: RecordedEvents;
  /** Of an output whose bytes are counted, as its lines may be others; absent: they are not. */
  readonly counted?: CountedOutput;
}

export interface CountedOutput {
  readonly cursors: OutputCursors;
  /** How much of it earlier processes have stored. */
  readonly stored: OutputEnds;
}

/** The log of one attempt: ships every line to the service, forwards events and keeps the last lines. */
export class RunLog {
  private readonly tail = new LogTail();
  private readonly cap: EventCap;
  private shipper: LogShipper | null = null;
  private reading: Promise<void> = Promise.resolve();

  constructor(
    private readonly context: WorkerContext,
    private readonly run: { readonly runId: string; readonly logger: Logger },
    eventLimits: EventLimits,
  ) {
    this.cap = new EventCap(eventLimits, context.clock);
  }

  /**
   * Starts to ship.
   * @param attempt 1-based
   * @param more as in ShipperOptions
   */
  open(attempt: number, more: Pick<ShipperOptions, 'isShared' | 'from'>): void {
    this.shipper = new LogShipper(this.context, { ...this.run, ...more, attempt });
  }

  /** Reads a container's output to its end. Never rejects: a broken log does not fail the run. */
  read(lines: AsyncIterable<LogLine>, sink: EventSink): Promise<void> {
    const { counted } = sink.rereading ?? {};
    if (counted !== undefined) this.shipper?.count(counted.cursors, counted.stored);
    this.reading = this.readAll(lines, sink).catch((error: unknown) => {
      if (sink.signal.aborted) return;
      this.run.logger.warn({ error: errorText(error) }, 'could not read the log of the container to its end');
    });
    return this.reading;
  }

  /** The last lines of the container as its log shows them, without events. */
  lastLines(): string[] {
    return this.tail.lines();
  }

  /** Adds lines of the worker, before the output of the container begins or after its end. */
  note(lines: string): void {
    const atMs = this.context.clock.epochMs();
    for (const text of lines.split('\n'))
      this.shipper?.push({ atMs, stream: 'stderr', text: `${WORKER_PREFIX} ${text}`, isContinued: false });
  }

  /**
   * Ends the log when the container's output ends. Waits for a short time until everything is shipped.
   * @param note added to the log
   */
  async finish(note: string | null): Promise<void> {
    const { shipper } = this;
    if (shipper === null) return;
    const shipped = this.reading.then(() => {
      if (note !== null) this.note(note);
      shipper.end();
      return shipper.done;
    });
    await this.waitFor(shipped, FLUSH_MS);
  }

  /** Ships the rest for a limited time, then only the end of the log, which takes little memory. */
  async shipRest(): Promise<void> {
    const { shipper } = this;
    if (shipper === null) return;
    const { all, unanswered } = SHIP_REST_MS;
    const endMs = this.context.clock.nowMs() + all;
    for (let leftMs = unanswered; leftMs > 0 && !shipper.isClosed;) {
      await this.waitFor(shipper.done, leftMs);
      leftMs = Math.min(unanswered - shipper.unansweredMs, endMs - this.context.clock.nowMs());
    }
    shipper.dropWaiting();
    await this.waitFor(shipper.done, SHIP_END_MS);
    shipper.close();
    await shipper.done;
  }

  /** Drops what is not shipped yet. */
  close(): void {
    this.shipper?.close();
  }

  private async readAll(lines: AsyncIterable<LogLine>, sink: EventSink): Promise<void> {
    const { logger } = this.run;
    const events = new EventForwarder(this.cap, sink);
    const joiners = { stdout: new LineJoiner(), stderr: new LineJoiner() };
    let sliceEnd = performance.now() + SLICE_MS;
    for await (const read of maskLines(lines, sink.mask)) {
      const { stream, part, bytes } = read;
      const isContinued = part === 'rest' || part === 'end';
      const text = keptText(read.text, isContinued);
      if (logger.isLevelEnabled('debug')) {
        logger.debug({ stream, line: text.slice(0, MAX_LOGGED) }, 'container log');
      }
      const atMs = this.context.clock.epochMs();
      // The end of a line may come after all of its text.
      if (this.shipper?.takesLines === false) await this.shipper.untilTakesLines();
      const end = bytes?.end;
      const isStored = end !== undefined && end <= (sink.rereading?.counted?.stored[stream] ?? 0);
      if (!isStored && (part !== 'end' || text !== ''))
        this.shipper?.push({ atMs, stream, text, isContinued, end });
      const line = joiners[stream].add(read);
      const event = line === null ? null : await eventOf(line, sink.mask);
      // A part is there before it is known what its line is.
      if (event === null || part !== undefined) this.tail.add(stream, text, part);
      if (event !== null && part !== undefined) this.tail.dropLine(stream);
      await events.forward(event, line?.plain ?? text, read, this.shipper);
      // Buffered lines arrive without returning to the event loop.
      if (performance.now() >= sliceEnd) {
        await yieldToEventLoop();
        sliceEnd = performance.now() + SLICE_MS;
      }
    }
    await events.end();
  }

  private async waitFor(done: Promise<void>, timeoutMs: number): Promise<void> {
    const timer = new AbortController();
    await Promise.race([done, this.context.clock.sleep(timeoutMs, timer.signal)]);
    timer.abort();
  }
}

/** The event that a line is, or that tells that it is dropped; null: the line is none. */
function eventOf({ plain, end, isTooLong }: JoinedLine, mask: SecretMask): Promise<RunEvent | null> {
  return maskedEvent(isTooLong ? tooLongEvent(plain, end) : parseLogEvent(plain), mask);
}

/** Logs of ended runs that are still being shipped. */
export class UnshippedLogs {
  private readonly logs = new Map<RunLog, Promise<void>>();

  add(log: RunLog): void {
    const shipped = log.shipRest().finally(() => this.logs.delete(log));
    this.logs.set(log, shipped);
  }

  async untilShipped(): Promise<void> {
    while (this.logs.size > 0) await Promise.all(this.logs.values());
  }

  /** Drops what is not shipped yet. */
  close(): void {
    for (const log of this.logs.keys()) log.close();
  }
}
