import type { DataSource } from 'typeorm';
import { sendNotice } from '../../../src/database/notices/commit-notice.js';
import { bodyOf } from '../http/answer-shapes.js';
import { until } from '../app/passing-time.js';
import type { Send, TestAnswer } from '../app/test-app.js';
import type { Received, Receiver } from './receiver.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

/** What tests do with webhooks over HTTP, each step checked against the documented shape of its answer. */
export class WebhookSteps {
  constructor(readonly send: Send) {}

  /** Creates a webhook. @returns it with its secret */
  async create(body: Readonly<Record<string, unknown>>): Promise<any> {
    return bodyOf(await this.send('POST', '/webhooks', { body }), 'WebhookWithSecret', 201);
  }

  async get(id: string): Promise<any> {
    return bodyOf(await this.send('GET', `/webhooks/${id}`), 'Webhook');
  }

  async update(id: string, body: Readonly<Record<string, unknown>>): Promise<any> {
    return bodyOf(await this.send('PATCH', `/webhooks/${id}`, { body }), 'Webhook');
  }

  /** Sends a request about a webhook; the answer is whatever it is. */
  post(id: string, action: string, body?: unknown): Promise<TestAnswer> {
    return this.send('POST', `/webhooks/${id}/${action}`, body === undefined ? {} : { body });
  }

  async deliveries(id: string, query = ''): Promise<any[]> {
    return bodyOf(await this.send('GET', `/webhooks/${id}/deliveries${query}`), 'WebhookDeliveries');
  }

  /** Waits until the webhook is as wanted. */
  untilIs(id: string, wanted: (webhook: any) => boolean): Promise<any> {
    return until(() => this.get(id), wanted);
  }
}

/** Waits for so many messages. @returns them in the order in which they came */
export async function received(receiver: Receiver, count: number, path?: string): Promise<Received[]> {
  const some = (): Received[] => receiver.received.filter((one) => path === undefined || one.path === path);
  return until(
    () => Promise.resolve(some()),
    (messages) => messages.length >= count,
  );
}

/** Lets seconds pass for webhooks, by moving all that they wait for nearer by that much. */
export async function letWebhooksWait(dataSource: DataSource, seconds: number): Promise<void> {
  await dataSource.transaction(async (manager) => {
    const by = [`${seconds} seconds`];
    await manager.query(
      `update webhook_deliveries
          set due_at = due_at - $1::interval, created_at = created_at - $1::interval, tried_at = tried_at - $1::interval`,
      by,
    );
    await manager.query(
      `update webhooks
          set probe_at = probe_at - $1::interval,
              failing_since = failing_since - $1::interval,
              old_secret_until = old_secret_until - $1::interval,
              lease_until = lease_until - $1::interval`,
      by,
    );
    await sendNotice(manager, { webhooks: true });
  });
}
