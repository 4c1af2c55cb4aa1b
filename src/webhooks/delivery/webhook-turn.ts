import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { monotonicMs } from '../../common/monotonic-ms.js';
import type { WebhookPosition } from '../../database/entities/webhook.entity.js';
import { DeliveryRepository, type Settled } from '../delivery.repository.js';
import { message } from '../message.js';
import { OccurrencesReader } from '../occurrences.reader.js';
import { WebhookMetrics } from '../webhook-metrics.js';
import {
  LeaseLost,
  MAX_FAILURES,
  MAX_PARKED,
  MESSAGES_PER_EVENT,
  TurnRepository,
  type Progress,
  type TakenWebhook,
} from './turn.repository.js';
import { WebhookSender, type Attempt, type Message } from './webhook-sender.js';

/** Seconds before each further try. */
const PAUSES_S = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400] as const;
/** By how much a pause is longer or shorter, at most. */
const JITTER = 0.1;
/** Longest pause that an endpoint may ask for. */
const MAX_PAUSE_S = 86_400;
/** Messages that are sent at the same time, each about another subject. */
const LANES = 8;
/** Events, or messages that wait, that are read at once: after a crash they may be sent again. */
const PAGE = 200;
/** A lease is renewed when it is this old. */
const RENEW_AFTER_MS = 15_000;

/** The turns of webhooks: while one works for a webhook, no other does, in whatever process. */
@Injectable()
export class WebhookTurns {
  constructor(
    readonly webhooks: TurnRepository,
    readonly deliveries: DeliveryRepository,
    readonly reader: OccurrencesReader,
    readonly sender: WebhookSender,
    readonly metrics: WebhookMetrics,
  ) {}

  /**
   * Sends what is to be sent to a webhook, until nothing is left or the endpoint fails.
   * @param stop when it aborts, what is being sent has failed and the rest is parked
   */
  async run(id: string, stop: AbortSignal): Promise<void> {
    const lease = randomUUID();
    const webhook = await this.webhooks.take(id, lease);
    if (!webhook) return;
    try {
      await new Turn(this, webhook, lease, stop).run();
    } catch (error) {
      if (!(error instanceof LeaseLost)) throw error;
    } finally {
      await this.webhooks.release(id, lease);
    }
  }
}

class Turn {
  #failures: number;
  #hadSuccess = false;
  #renewedAt = monotonicMs();
  /** Whether the lease was lost, so that nothing more may be sent. */
  #isAbandoned = false;
  /** Why the endpoint must not be sent to at all. */
  #goneBecause: string | undefined;

  constructor(
    private readonly parts: WebhookTurns,
    private readonly webhook: TakenWebhook,
    private readonly lease: string,
    private readonly stop: AbortSignal,
  ) {
    this.#failures = webhook.failures;
  }

  async run(): Promise<void> {
    const { deliveries } = this.parts;
    const { id } = this.webhook;
    let { position, replay } = this.webhook;
    let parked = await deliveries.countParked(id);
    if ((this.#isFailing || roomBeside(parked) === 0) && parked.size > 0 && !(await this.#probe())) return;
    for (;;) {
      if (await this.#retryDue()) parked = await deliveries.countParked(id);
      const room = roomBeside(parked);
      if (this.#isOver || room === 0) return;
      const isReplay = replay !== null;
      const from: WebhookPosition = replay ?? position;
      const limit = Math.min(PAGE, Math.floor(room / MESSAGES_PER_EVENT));
      const page = await this.parts.reader.read(this.webhook, from, limit, this.webhook.now);
      if (isReplay) replay = page.hasMore ? page.position : null;
      else position = page.position;
      const gap = page.gap && { gap: page.gap };
      const progress = isReplay ? { replay, ...gap } : { position, ...gap };
      if (page.messages.length > 0 || isReplay || isMoved(from, page.position)) {
        await this.#deliver(page.messages, new Set(parked.keys()), progress);
        parked = await deliveries.countParked(id);
      }
      if (this.#isOver || (!page.hasMore && !isReplay)) return;
    }
  }

  get #isFailing(): boolean {
    return this.#failures >= MAX_FAILURES;
  }

  get #isOver(): boolean {
    return this.#isFailing || this.#goneBecause !== undefined || this.stop.aborted;
  }

  /** Tries the oldest parked message. @returns whether the endpoint took it: then the others are tried, too */
  async #probe(): Promise<boolean> {
    const [oldest] = await this.parts.deliveries.listDue(this.webhook.id, 1, true);
    if (!oldest) return true;
    // It is no try of the message: an outage that lasts must not use them up.
    const attempt = await this.#try(oldest, 0);
    const settled: Settled = attempt.isDelivered
      ? afterTry(oldest.tries, attempt)
      : { state: 'parked', tries: oldest.tries, dueInS: PAUSES_S[0], attempt };
    await this.#record({}, async (manager) => {
      await this.parts.deliveries.settle(manager, [{ id: oldest.id, ...settled }]);
      if (attempt.isDelivered) await this.parts.deliveries.bringForward(manager, this.webhook.id);
    });
    return attempt.isDelivered;
  }

  /** Tries the parked messages that are due. @returns whether there were any */
  async #retryDue(): Promise<boolean> {
    const { deliveries } = this.parts;
    for (let found = false; ; found = true) {
      const due = this.#isOver ? [] : await deliveries.listDue(this.webhook.id, PAGE, false);
      if (due.length === 0) return found;
      const tried = await this.#inLanes(due, new Set(), (parked, attempt) => ({
        id: parked.id,
        ...(attempt === null
          ? { state: 'parked' as const, tries: parked.tries, dueInS: PAUSES_S[0], attempt }
          : afterTry(parked.tries, attempt)),
      }));
      await this.#record({}, (manager) => deliveries.settle(manager, tried));
    }
  }

  /** Sends new messages. Those about a subject that has parked ones wait behind them. */
  async #deliver(
    messages: readonly Message[],
    blocked: Set<string>,
    progress: Pick<Progress, 'position' | 'replay' | 'gap'>,
  ): Promise<void> {
    const made = await this.#inLanes(messages, blocked, (one, attempt) => ({
      ...one,
      ...(attempt === null
        ? { state: 'parked' as const, tries: 0, dueInS: 0, attempt }
        : afterTry(0, attempt)),
    }));
    await this.#record(progress, (manager) =>
      this.parts.deliveries.append(manager, this.webhook.id, made).then(() => undefined),
    );
  }

  /**
   * Tries messages, those about one subject one after the other until one fails, others at the same time. An endpoint that fails
   * gets one at a time, and none after a failure.
   * @param settle what is made of a message and its try; null: it was not tried
   * @returns in the order of the messages
   */
  async #inLanes<M extends Message & { readonly tries?: number }, S>(
    messages: readonly M[],
    blocked: Set<string>,
    settle: (message: M, attempt: Attempt | null) => S,
  ): Promise<S[]> {
    const results = new Map<M, S>();
    const bySubject = new Map<string, M[]>(messages.map(({ subject }) => [subject, []]));
    for (const one of messages) bySubject.get(one.subject)?.push(one);
    const waiting = bySubject.values();
    const isProbe = this.#isFailing;
    let isAfterFailure = false;
    const work = async (): Promise<void> => {
      for (const lane of waiting) {
        for (const one of lane) {
          if (this.#isAbandoned) return;
          const isHeld = blocked.has(one.subject) || this.stop.aborted || this.#goneBecause !== undefined;
          const isOpen = isProbe ? isAfterFailure : this.#isFailing;
          const attempt = isHeld || isOpen ? null : await this.#try(one, one.tries ?? 0);
          if (attempt?.isDelivered === false) {
            isAfterFailure = true;
            blocked.add(one.subject);
          }
          results.set(one, settle(one, attempt));
        }
      }
    };
    await Promise.all(Array.from({ length: isProbe ? 1 : LANES }, work));
    return messages.flatMap((one) => results.get(one) ?? []);
  }

  /** @param triesBefore of the message */
  async #try(one: Message, triesBefore: number): Promise<Attempt> {
    if (monotonicMs() - this.#renewedAt > RENEW_AFTER_MS) {
      this.#renewedAt = monotonicMs();
      await this.#renew();
    }
    const attempt = await this.parts.sender.send(this.webhook, one, this.stop);
    // What the shutdown cut off says nothing of the endpoint.
    if (!attempt.isDelivered && this.stop.aborted) return attempt;
    const outcome = triesBefore < PAUSES_S.length ? 'failed' : 'given_up';
    this.parts.metrics.tried(attempt.isDelivered ? 'delivered' : outcome);
    if (attempt.isDelivered) {
      this.#failures = 0;
      this.#hadSuccess = true;
    } else {
      this.#failures += 1;
      if (attempt.status === 410) this.#goneBecause ??= 'The endpoint answered 410 Gone';
      else if (this.webhook.isLost && !this.#hadSuccess)
        this.#goneBecause ??= 'The endpoint took nothing for 5 days';
    }
    return attempt;
  }

  async #renew(): Promise<void> {
    try {
      await this.parts.webhooks.renew(this.webhook.id, this.lease);
    } catch (error) {
      this.#isAbandoned = true;
      throw error;
    }
  }

  async #record(
    progress: Pick<Progress, 'position' | 'replay' | 'gap'>,
    also: Parameters<TurnRepository['record']>[3],
  ): Promise<void> {
    const { webhooks, metrics } = this.parts;
    const { id, url, now } = this.webhook;
    const health = { failures: this.#failures, hadSuccess: this.#hadSuccess };
    await webhooks.record(id, this.lease, { ...progress, ...health }, also);
    this.#renewedAt = monotonicMs();
    const reason = this.#goneBecause;
    if (reason === undefined) return;
    const t = now.toISOString();
    const about = message('webhook.disabled', [id, now.getTime()], id, t, { webhook_id: id, url, reason });
    await webhooks.disable(this.webhook, this.lease, reason, about);
    metrics.disabled();
  }
}

/** Messages that may still be parked. */
function roomBeside(parked: ReadonlyMap<string, number>): number {
  const count = [...parked.values()].reduce((sum, n) => sum + n, 0);
  return MAX_PARKED - count < MESSAGES_PER_EVENT ? 0 : MAX_PARKED - count;
}

function isMoved(from: WebhookPosition, to: WebhookPosition): boolean {
  return (
    JSON.stringify({ ...from, readAt: '' }) !== JSON.stringify({ ...to, readAt: '' }) || isHourOld(from, to)
  );
}

/** Without events, the position is written once in an hour. */
function isHourOld(from: WebhookPosition, to: WebhookPosition): boolean {
  return Date.parse(to.readAt) - Date.parse(from.readAt) >= 3_600_000;
}

/** @param triesBefore tries before this one */
function afterTry(triesBefore: number, attempt: Attempt): Settled {
  const tries = triesBefore + 1;
  if (attempt.isDelivered) return { state: 'delivered', tries, dueInS: null, attempt };
  const pauseS = PAUSES_S[triesBefore];
  if (pauseS === undefined) return { state: 'failed', tries, dueInS: null, attempt };
  const jittered = pauseS * (1 - JITTER + 2 * JITTER * Math.random());
  return {
    state: 'parked',
    tries,
    dueInS: Math.max(jittered, Math.min(attempt.retryAfterS, MAX_PAUSE_S)),
    attempt,
  };
}
