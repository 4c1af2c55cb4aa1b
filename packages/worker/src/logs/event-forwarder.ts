import { MAX_WAITING_EVENTS } from '../execution/event-sender.js';
import type { RunEvent } from '../service-api/service-api.js';
import type { EventCap } from './event-cap.js';
import type { LogShipper } from './log-shipper.js';
import type { EventSink } from './run-log.js';

interface KeyedEvent {
  readonly event: RunEvent;
  readonly key: string | null;
}

/** Forwards the events of one log to the service, line by line. */
export class EventForwarder {
  /** Number of lines so far. */
  private lines = 0;
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
   * @param text of the line, or its part
   * @param shipper has the line already; null: nothing is shipped
   */
  async forward(event: RunEvent | null, text: string, shipper: LogShipper | null): Promise<void> {
    const { signal, sender, rereading } = this.sink;
    const key = rereading?.keyOf(this.lines) ?? null;
    this.lines += 1;
    if (this.lines === 1 && rereading?.isRepeated === true && shipper !== null)
      this.storedLines = await Promise.race([shipper.storedLines, stopped(signal)]);
    const storedAfter = shipper === null || shipper.isClosed ? -1 : this.storedLines - shipper.lineCount;
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

function stopped(signal: AbortSignal): Promise<number> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(0);
    else signal.addEventListener('abort', () => resolve(0), { once: true });
  });
}
