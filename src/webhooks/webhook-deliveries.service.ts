import { Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { recordChange, type Author } from '../auth/audit-log.js';
import type { Page } from '../database/sql/read-page.js';
import { isRunId } from '../runs/machine/new-id.js';
import { DeliveryRepository } from './delivery.repository.js';
import { WebhookSender, type Message } from './delivery/webhook-sender.js';
import {
  DEFAULT_LISTED_DELIVERIES,
  toDeliveryDto,
  type ListDeliveriesQueryDto,
  type WebhookDeliveryDto,
} from './dto/delivery.dto.js';
import { message } from './message.js';
import { WebhookRepository, type ShownWebhook } from './webhook.repository.js';
import { DeliveryNotFound, WebhookNotFound } from './webhooks.errors.js';

/** Deliveries, and those that admins ask for, which are tried once. Methods throw WebhookNotFound. */
@Injectable()
export class WebhookDeliveriesService {
  constructor(
    private readonly webhooks: WebhookRepository,
    private readonly deliveries: DeliveryRepository,
    private readonly sender: WebhookSender,
  ) {}

  /** The newest first. */
  async list(
    webhookId: string,
    { limit = DEFAULT_LISTED_DELIVERIES, after, state }: ListDeliveriesQueryDto,
  ): Promise<Page<WebhookDeliveryDto>> {
    await this.#get(webhookId);
    const found = await this.deliveries.list(webhookId, { before: after, limit: limit + 1, state });
    return { items: found.slice(0, limit).map(toDeliveryDto), hasMore: found.length > limit };
  }

  /** Sends a test message, also to a webhook that is disabled. */
  async test(webhookId: string): Promise<WebhookDeliveryDto> {
    const webhook = await this.#get(webhookId);
    const t = new Date().toISOString();
    const test = message('webhook.test', [uuidv7()], webhookId, t, { webhook_id: webhookId });
    const attempt = await this.#send(webhook, test);
    const settled = {
      state: attempt.isDelivered ? 'delivered' : 'failed',
      tries: 1,
      dueInS: null,
      attempt,
    } as const;
    const [id = ''] = await this.deliveries.append(this.webhooks.manager, webhookId, [
      { ...test, ...settled },
    ]);
    return this.#show(webhookId, id);
  }

  /** Tries a delivery once more, whatever its state is. One that fails stays in its state. @throws DeliveryNotFound */
  async redeliver(webhookId: string, id: string, by: Author): Promise<WebhookDeliveryDto> {
    const webhook = await this.#get(webhookId);
    const delivery = await this.#find(webhookId, id);
    const attempt = await this.#send(webhook, delivery);
    await this.webhooks.manager.transaction(async (manager) => {
      await this.deliveries.note(manager, id, attempt);
      const after = { delivery: id, message_id: delivery.messageId, delivered: attempt.isDelivered };
      await recordChange(manager, by, { action: 'webhook.redeliver', subject: webhookId, before: {}, after });
    });
    return this.#show(webhookId, id);
  }

  async #send(webhook: ShownWebhook, one: Message) {
    const attempt = await this.sender.send(webhook, one);
    if (attempt.isDelivered) await this.webhooks.noteSuccess(webhook.id);
    return attempt;
  }

  async #show(webhookId: string, id: string): Promise<WebhookDeliveryDto> {
    return toDeliveryDto(await this.#find(webhookId, id));
  }

  async #find(webhookId: string, id: string) {
    const found = /^\d{1,18}$/.test(id) ? await this.deliveries.find(webhookId, id) : null;
    if (!found) throw new DeliveryNotFound(id);
    return found;
  }

  async #get(id: string): Promise<ShownWebhook> {
    const found = isRunId(id) ? await this.webhooks.find(id) : null;
    if (!found) throw new WebhookNotFound(id);
    return found;
  }
}
