import type { Clock } from '../process/clock.js';
import type { RunEvent } from '../service-api/service-api.js';
import { EVENTS_DROPPED } from './log-events.js';

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
