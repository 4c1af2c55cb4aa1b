import type { Logger } from 'pino';
import type { TraceContext } from '@longshore/common/tracing/trace-context';
import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '@longshore/common/backoff';
import { EVENTS_DROPPED } from '../logs/log-events.js';
import { isContentRefused, isKeyUsed, isRunLost } from '../service-api/service-answer.js';
import type { Answer, Refusal, RunEvent } from '../service-api/service-api.js';
import { clipMessage } from './failure-message.js';

/** When so many events wait, the reader of the log waits too. */
export const MAX_WAITING_EVENTS = 100;

const RETRY = { firstMs: 500, maxMs: 15_000 };

/**
 * `lost`: the attempt is no longer assigned to this worker; `given-up`: the worker stops reporting; `left`: its next process
 * reports.
 */
type ClosingReason = 'lost' | 'given-up' | 'left';

export type Delivery =
  | { readonly kind: 'delivered' }
  | Refusal
  | { readonly kind: 'closed'; readonly why: ClosingReason };

interface SenderOptions {
  readonly runId: string;
  /** Null: not known yet. */
  readonly attempt: () => number | null;
  /** Part of the idempotency keys, unique per execution. */
  readonly executionId: string;
  /** Null: the run is not traced. */
  readonly trace: TraceContext | null;
  readonly logger: Logger;
  /** Called after the attempt is lost and the sender closed. */
  readonly onLost: (why: string) => void;
}

interface Waiting {
  readonly event: RunEvent;
  readonly idempotencyKey: string;
  readonly settle: ((delivery: Delivery) => void) | null;
}

/**
 * Sends the events of one attempt in order, one at a time. Repeats an event with growing pauses until the service accepts
 * or refuses it.
 */
export class EventSender {
  private readonly waiting: Waiting[] = [];
  private readonly blockedPushes: (() => void)[] = [];
  private readonly closing = new AbortController();
  private closed: Extract<Delivery, { kind: 'closed' }> | null = null;
  private readonly lastTry = new AbortController();
  private readonly interrupted = AbortSignal.any([this.closing.signal, this.lastTry.signal]);
  private isSending = false;
  private count = 0;

  constructor(
    private readonly context: WorkerContext,
    private readonly options: SenderOptions,
  ) {}

  /**
   * Queues an event and resolves when there is room for it. A refused event is dropped.
   * @param key idempotency key; null: one of this execution alone
   */
  async push(event: RunEvent, key: string | null = null): Promise<void> {
    while (this.waiting.length >= MAX_WAITING_EVENTS && this.closed === null) {
      await new Promise<void>((resolve) => this.blockedPushes.push(resolve));
    }
    this.add(event, key, null);
  }

  /** As `push`, but resolves with the result. */
  deliver(event: RunEvent, key: string | null = null): Promise<Delivery> {
    return new Promise((resolve) => {
      this.add(event, key, resolve);
    });
  }

  /** Stops sending and settles all queued events. The first reason counts. */
  close(why: ClosingReason): void {
    if (this.closed !== null) return;
    this.closed = { kind: 'closed', why };
    this.closing.abort();
    for (const { settle } of this.waiting.splice(0)) settle?.(this.closed);
    this.unblockPushes();
  }

  /** From now on closes with `left` at an event that gets no answer. */
  stopRepeating(): void {
    this.lastTry.abort();
  }

  private add(event: RunEvent, key: string | null, settle: Waiting['settle']): void {
    if (this.closed !== null) {
      settle?.(this.closed);
      return;
    }
    this.count += 1;
    const idempotencyKey = key ?? `${this.options.executionId}:${this.count}`;
    this.waiting.push({ event, idempotencyKey, settle });
    void this.sendAll();
  }

  private async sendAll(): Promise<void> {
    if (this.isSending) return;
    this.isSending = true;
    for (let first = this.waiting[0]; first !== undefined; first = this.waiting[0]) {
      const delivery = await this.send(first);
      if (delivery.kind === 'closed') break;
      this.waiting.shift();
      this.unblockPushes();
      if (first.settle !== null) {
        first.settle(delivery);
      } else if (delivery.kind === 'refused') {
        const { status, detail } = delivery;
        this.options.logger.warn(
          { type: first.event.type, status, detail },
          'the service refused a log event',
        );
        if (this.closed === null && isContentRefused(delivery)) this.tellDropped(first, delivery);
      }
    }
    this.isSending = false;
  }

  /** Says on the timeline that an event is missing there. */
  private tellDropped({ event: { type }, idempotencyKey }: Waiting, refusal: Refusal): void {
    if (type === EVENTS_DROPPED) return;
    const { status, detail, isByProxy } = refusal;
    const byService =
      status === 413 ? 'it is larger than the service takes' : `the service refused it: ${detail}`;
    const why = isByProxy === true ? detail : byService;
    const msg = clipMessage(`An event of the type ${type} is dropped: ${why}`);
    const event = { type: EVENTS_DROPPED, msg };
    this.waiting.unshift({ event, idempotencyKey: `${idempotencyKey}:dropped`, settle: null });
  }

  private async send({ event, idempotencyKey }: Waiting): Promise<Delivery> {
    const backoff = new Backoff(RETRY, this.context.random);
    for (let tries = 1; ; tries++) {
      const answer = await this.post(event, idempotencyKey);
      if (this.closed !== null) return this.closed;
      switch (answer.kind) {
        case 'ok':
          if (tries > 1) this.options.logger.info({ type: event.type, tries }, 'event delivered');
          return { kind: 'delivered' };
        case 'refused':
          if (isKeyUsed(answer)) return { kind: 'delivered' };
          this.onRefused(answer, event.type);
          return answer;
        case 'unreachable':
          if (tries === 1) {
            const { reason } = answer;
            this.options.logger.warn({ type: event.type, reason }, 'event not delivered, retrying');
          }
          await this.context.clock.sleep(backoff.nextMs(answer.retryAfterSeconds), this.interrupted);
          if (this.lastTry.signal.aborted) this.close('left');
      }
      if (this.closed !== null) return this.closed;
    }
  }

  private post(event: RunEvent, idempotencyKey: string): Promise<Answer<null>> {
    const { runId, attempt, trace } = this.options;
    const reporter = { workerId: this.context.workerId, attempt: attempt(), idempotencyKey, trace };
    return this.context.api.postEvent(runId, event, reporter);
  }

  private onRefused(refusal: Refusal, type: string): void {
    if (!isRunLost(refusal)) return;
    const { status, detail } = refusal;
    this.options.logger.info({ type, status, detail }, 'event refused: the attempt is lost');
    this.close('lost');
    this.options.onLost(detail);
  }

  private unblockPushes(): void {
    for (const unblock of this.blockedPushes.splice(0)) unblock();
  }
}
