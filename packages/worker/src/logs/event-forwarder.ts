import { createHash } from 'node:crypto';
import { MAX_WAITING_EVENTS } from '../execution/event-sender.js';
import type { RunEvent, TimelineEntry } from '../service-api/service-api.js';
import type { LogShipper } from './log-shipper.js';
import { NOTHING_READ, type LogLine } from '../runtime/runtime.js';
import type { EventSink } from './run-log.js';
import { whenAborted, type Clock } from '../process/clock.js';
import { EVENTS_DROPPED } from './log-events.js';
import { canonicalJson } from '@longshore/common/json/canonical-json';

interface KeyedEvent {
  readonly event: RunEvent;
  readonly key: string | null;
}

/** Forwards the events of one log to the service, line by line. */
export class EventForwarder {
  /** Number of lines so far. */
  private lines = 0;
  /** How much of a counted output has come. */
  private ends = NOTHING_READ;
  /** Lines of the service's log that an earlier process has stored. */
  private storedLines = 0;
  /** Events in stored lines that the earlier process may have sent without getting an answer. */
  private readonly unsure: KeyedEvent[] = [];

  constructor(
    private readonly cap: EventCap,
    private readonly sink: EventSink,
  ) {}

  /**
   * Forwards the event of the next line, at the rate that the cap allows, unless the timeline has it already. Of events in
   * stored lines it sends only the last ones, at any rate: a sender never has more without an answer.
   * @param event null: the line, or its part, is none
   * @param text as it was printed
   * @param line or its part
   * @param shipper has the line already; null: nothing is shipped
   */
  async forward(
    event: RunEvent | null,
    text: string,
    line: LogLine,
    shipper: LogShipper | null,
  ): Promise<void> {
    const { signal, sender, rereading } = this.sink;
    const key = rereading?.keyOf(this.lines, line) ?? null;
    this.lines += 1;
    const storedAfter = await this.storedAfter(line, shipper);
    if (storedAfter < 0) await this.sendUnsure();
    if (event !== null && !signal.aborted) {
      const bytes = Buffer.byteLength(text);
      const admitted =
        storedAfter < 0 ? await this.cap.admit(event, bytes, signal) : this.cap.count(event, bytes);
      const isNew = admitted !== null && rereading?.recorded.takes(admitted) !== true;
      if (isNew && storedAfter < 0) await sender.push(admitted, key);
      else if (isNew) this.keep({ event: admitted, key });
    }
    if (storedAfter === 0) await this.sendUnsure();
  }

  /** Above 0: the line and later ones are stored; 0: it is the last one that is; below 0: it is not. */
  private async storedAfter({ stream, bytes }: LogLine, shipper: LogShipper | null): Promise<number> {
    const { signal, rereading } = this.sink;
    const { counted } = rereading ?? {};
    if (counted !== undefined) {
      const { stored } = counted;
      if (bytes === undefined || bytes.end > stored[stream]) return -1;
      this.ends = { ...this.ends, [stream]: bytes.end };
      return this.ends.stdout < stored.stdout || this.ends.stderr < stored.stderr ? 1 : 0;
    }
    if (this.lines === 1 && rereading?.isRepeated === true && shipper !== null)
      this.storedLines = await Promise.race([shipper.storedLines, whenAborted(signal).then(() => 0)]);
    return shipper === null || shipper.isClosed ? -1 : this.storedLines - shipper.lineCount;
  }

  /** The log has ended. */
  end(): Promise<void> {
    return this.sendUnsure();
  }

  private keep(event: KeyedEvent): void {
    this.unsure.push(event);
    // One more than may wait: the reader of the log waits with it.
    if (this.unsure.length > MAX_WAITING_EVENTS + 1) this.unsure.shift();
  }

  private async sendUnsure(): Promise<void> {
    for (const { event, key } of this.unsure.splice(0)) {
      if (!this.sink.signal.aborted) await this.sink.sender.push(event, key);
    }
  }
}

/** Limits of the events that a container prints. */
export interface EventLimits {
  /** Per attempt. */
  readonly maxEvents: number;
  /** Bytes of the printed lines per attempt. */
  readonly maxEventBytes: number;
  /** Per second. */
  readonly eventRate: number;
}

/** So many seconds of the rate may come at once. */
const BURST_SECONDS = 10;

/** Bounds the number, bytes and rate of the events of one attempt. */
export class EventCap {
  private events = 0;
  private bytes = 0;
  private isReached = false;
  private tokens: number;
  private refilledAt: number;

  constructor(
    private readonly limits: EventLimits,
    private readonly clock: Clock,
  ) {
    this.tokens = this.burst;
    this.refilledAt = clock.nowMs();
  }

  /**
   * Counts an event, and waits until the rate allows it.
   * @param lineBytes of the line that it was printed as
   * @returns as `count`; null also when the signal is aborted
   */
  async admit(event: RunEvent, lineBytes: number, signal: AbortSignal): Promise<RunEvent | null> {
    const counted = this.count(event, lineBytes);
    if (counted === event) await this.takeToken(signal);
    return signal.aborted ? null : counted;
  }

  /**
   * Counts an event, whatever the rate.
   * @returns the event; an event that says so when the cap is reached; null for every event after that
   */
  count(event: RunEvent, lineBytes: number): RunEvent | null {
    if (this.isReached) return null;
    const { maxEvents, maxEventBytes } = this.limits;
    this.events += 1;
    this.bytes += lineBytes;
    if (this.events > maxEvents) return this.reach(`SERVICE_WORKER_MAX_EVENTS is ${maxEvents}`);
    if (this.bytes > maxEventBytes) return this.reach(`SERVICE_WORKER_MAX_EVENT_BYTES is ${maxEventBytes}`);
    return event;
  }

  private reach(why: string): RunEvent {
    this.isReached = true;
    return { type: EVENTS_DROPPED, msg: `Further events of this attempt's log are dropped: ${why}` };
  }

  private async takeToken(signal: AbortSignal): Promise<void> {
    this.refill();
    while (this.tokens < 1 && !signal.aborted) {
      await this.clock.sleep(Math.ceil(((1 - this.tokens) * 1000) / this.limits.eventRate), signal);
      this.refill();
    }
    this.tokens -= 1;
  }

  private refill(): void {
    const now = this.clock.nowMs();
    const earned = ((now - this.refilledAt) * this.limits.eventRate) / 1000;
    this.tokens = Math.min(this.burst, this.tokens + earned);
    this.refilledAt = now;
  }

  private get burst(): number {
    return Math.max(1, this.limits.eventRate * BURST_SECONDS);
  }
}

/** The events of an attempt that were on the timeline before its log is read again. */
export class RecordedEvents {
  /** Oldest first. A timeline may have many megabytes. */
  private readonly digests: readonly string[];
  /** Events up to here were printed before the event that is asked for next. */
  private next = 0;

  /** @param newest the newest entries of the timeline, oldest first. If they begin within the attempt, none is recognized. */
  constructor(newest: readonly TimelineEntry[], attempt: number) {
    const [first] = newest;
    const isWhole = first !== undefined && (first.index === 0 || first.attempt < attempt);
    this.digests = isWhole ? newest.filter((entry) => entry.attempt === attempt).map(digestOf) : [];
  }

  /**
   * Whether the timeline has the event. Ask for each event of the log in its order: equal ones are counted. Entries of other
   * senders in between do not matter.
   */
  takes(event: RunEvent): boolean {
    if (this.next >= this.digests.length) return false;
    const found = this.digests.indexOf(digestOf(event), this.next);
    if (found >= 0) this.next = found + 1;
    return found >= 0;
  }
}

function digestOf({ type, msg, payload = {} }: RunEvent): string {
  return createHash('sha256')
    .update(canonicalJson([type, msg, payload]))
    .digest('base64');
}
