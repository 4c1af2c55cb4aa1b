import type { Logger } from 'pino';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '../backoff.js';
import {
  isKeyRefusal,
  isLossOfRun,
  type Answer,
  type Refusal,
  type RunEvent,
} from '../service-api/service-api.js';

/** Events that wait at most; then the reader of the log has to wait. */
export const MAX_WAITING_EVENTS = 100;

const RETRY = { firstMs: 500, maxMs: 15_000 };

/** Why a sender sends nothing more. `lost`: the attempt is no longer ours; `given-up`: nobody waits for the answer. */
export type ClosingReason = 'lost' | 'given-up';

/** How the delivery of an event ended. */
export type Delivery =
  { readonly kind: 'delivered' } | Refusal | { readonly kind: 'closed'; readonly why: ClosingReason };

/** The attempt that is reported on. */
export interface SenderOptions {
  readonly runId: string;
  /** Null when it is not known yet. */
  readonly attempt: () => number | null;
  /** Tells the events of one execution from those of any other. */
  readonly executionId: string;
  /** Where in a trace the reports belong; null: nobody traces the run. */
  readonly trace: TraceContext | null;
  readonly logger: Logger;
  /** Called when the service says that the attempt is no longer this worker's; the sender is closed by then. */
  readonly onLost: (why: string) => void;
}

interface Waiting {
  readonly event: RunEvent;
  readonly idempotencyKey: string;
  readonly settle: ((delivery: Delivery) => void) | null;
}

/**
 * Sends the events of one attempt in order, one at a time. An event is repeated until the service takes or refuses it,
 * with growing pauses while the service does not answer.
 */
export class EventSender {
  private readonly waiting: Waiting[] = [];
  private roomWanted: (() => void)[] = [];
  private readonly closing = new AbortController();
  private closed: Extract<Delivery, { kind: 'closed' }> | null = null;
  private pumping = false;
  private count = 0;

  constructor(
    private readonly context: WorkerContext,
    private readonly options: SenderOptions,
  ) {}

  /** Adds an event that may be dropped when it is refused. Resolves when there was room for it. */
  async push(event: RunEvent): Promise<void> {
    while (this.waiting.length >= MAX_WAITING_EVENTS && this.closed === null) {
      await new Promise<void>((resolve) => this.roomWanted.push(resolve));
    }
    this.add(event, null);
  }

  /** Adds an event and resolves when its delivery has ended. */
  deliver(event: RunEvent): Promise<Delivery> {
    return new Promise((resolve) => {
      this.add(event, resolve);
    });
  }

  /** Sends nothing more; whoever waits is told so. The first reason stands. */
  close(why: ClosingReason): void {
    if (this.closed !== null) return;
    this.closed = { kind: 'closed', why };
    this.closing.abort();
    for (const { settle } of this.waiting.splice(0)) settle?.(this.closed);
    this.makeRoom();
  }

  private add(event: RunEvent, settle: Waiting['settle']): void {
    if (this.closed !== null) {
      settle?.(this.closed);
      return;
    }
    this.count += 1;
    this.waiting.push({ event, idempotencyKey: `${this.options.executionId}:${this.count}`, settle });
    void this.pump();
  }

  private async pump(): Promise<void> {
    if (this.pumping) return;
    this.pumping = true;
    for (let first = this.waiting[0]; first !== undefined; first = this.waiting[0]) {
      const delivery = await this.send(first);
      if (delivery.kind === 'closed') break;
      this.waiting.shift();
      this.makeRoom();
      if (first.settle !== null) {
        first.settle(delivery);
      } else if (delivery.kind === 'refused') {
        const { status, detail } = delivery;
        this.options.logger.warn(
          { type: first.event.type, status, detail },
          'the service refused a log event',
        );
      }
    }
    this.pumping = false;
  }

  /** One event, until there is an answer. */
  private async send({ event, idempotencyKey }: Waiting): Promise<Delivery> {
    const backoff = new Backoff(RETRY, this.context.random);
    for (let tries = 1; ; tries++) {
      const answer = await this.post(event, idempotencyKey);
      if (this.closed !== null) return this.closed;
      switch (answer.kind) {
        case 'ok':
          if (tries > 1) this.options.logger.info({ type: event.type, tries }, 'event delivered after all');
          return { kind: 'delivered' };
        case 'refused':
          this.react(answer, event.type);
          return answer;
        case 'unreachable':
          if (tries === 1) {
            const { reason } = answer;
            this.options.logger.warn({ type: event.type, reason }, 'event not delivered yet, trying on');
          }
          await this.context.clock.sleep(backoff.nextMs(answer.retryAfterSeconds), this.closing.signal);
      }
      if (this.closed !== null) return this.closed;
    }
  }

  private post(event: RunEvent, idempotencyKey: string): Promise<Answer<null>> {
    const { runId, attempt, trace } = this.options;
    const reporter = { workerId: this.context.workerId, attempt: attempt(), idempotencyKey, trace };
    return this.context.api.postEvent(runId, event, reporter);
  }

  private react(refusal: Refusal, type: string): void {
    if (isKeyRefusal(refusal)) {
      this.close('given-up');
      this.context.onKeyRefused(refusal);
    } else if (isLossOfRun(refusal)) {
      const { status, detail } = refusal;
      this.options.logger.info({ type, status, detail }, 'report refused: the attempt is no longer ours');
      this.close('lost');
      this.options.onLost(refusal.detail);
    }
  }

  private makeRoom(): void {
    for (const go of this.roomWanted.splice(0)) go();
  }
}
