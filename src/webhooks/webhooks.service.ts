import { Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { readTime } from '@longshore/common/json/read-time';
import { AddressRefused } from '@longshore/common/public-addresses';
import type { Author } from '../auth/audit-log.js';
import { InvalidRequest } from '../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../common/http/validation/problems.js';
import { Log } from '../common/logging/logger.js';
import { isRunId } from '../runs/machine/new-id.js';
import { EndpointAddresses } from './delivery/endpoint-addresses.js';
import {
  toColumns,
  toNewColumns,
  toSettings,
  toWebhookDto,
  type CreateWebhookDto,
  type ReplayDto,
  type UpdateWebhookDto,
  type WebhookDto,
  type WebhookWithSecretDto,
} from './dto/webhook.dto.js';
import { OccurrencesReader } from './occurrences.reader.js';
import { WebhookSecrets } from './webhook-secrets.js';
import { MAX_WEBHOOKS, WebhookRepository, type WebhookChange } from './webhook.repository.js';
import { TooManyWebhooks, WebhookNotFound } from './webhooks.errors.js';

/** What admins do with webhooks. Methods with an id throw WebhookNotFound. */
@Injectable()
export class WebhooksService {
  constructor(
    private readonly webhooks: WebhookRepository,
    private readonly reader: OccurrencesReader,
    private readonly addresses: EndpointAddresses,
    private readonly secrets: WebhookSecrets,
    private readonly log: Log,
  ) {}

  /** @throws SecretsNotConfigured, TooManyWebhooks, InvalidRequest for a URL that must not be connected to */
  async create(body: CreateWebhookDto, by: Author): Promise<WebhookWithSecretDto> {
    const id = uuidv7();
    const { text, stored } = this.secrets.generate(id);
    await this.#checkUrl(body.url);
    const columns = toNewColumns(body);
    const created = await this.webhooks.insert(
      { id, ...columns, secret: stored },
      (now) => this.reader.positionAt(null, now),
      by,
    );
    if (!created) throw new TooManyWebhooks(MAX_WEBHOOKS);
    this.log.info('created a webhook', { webhook: id, events: columns.events, by: by.name });
    return { ...toWebhookDto(created), secret: text };
  }

  async list(): Promise<WebhookDto[]> {
    return (await this.webhooks.list()).map(toWebhookDto);
  }

  async get(id: string): Promise<WebhookDto> {
    const found = isRunId(id) ? await this.webhooks.find(id) : null;
    if (!found) throw new WebhookNotFound(id);
    return toWebhookDto(found);
  }

  /** One that is enabled again goes on where it stopped. @throws InvalidRequest for a URL that must not be connected to */
  async update(id: string, body: UpdateWebhookDto, by: Author): Promise<WebhookDto> {
    if (body.url !== undefined) await this.#checkUrl(body.url);
    const set = toColumns(body);
    return this.#change(id, by, (webhook) => {
      const isEnabledAgain = set.isEnabled === true && !webhook.isEnabled;
      return {
        set: { ...set, ...(isEnabledAgain && { disabledReason: null, failures: 0, failingSince: null }) },
        entry: {
          action: 'webhook.update',
          before: toSettings(webhook),
          after: toSettings({ ...webhook, ...set }),
        },
        retriesParked: isEnabledAgain,
      };
    });
  }

  async delete(id: string, by: Author): Promise<void> {
    if (!isRunId(id) || !(await this.webhooks.remove(id, by, toSettings))) throw new WebhookNotFound(id);
    this.log.info('deleted a webhook', { webhook: id, by: by.name });
  }

  /** @throws SecretsNotConfigured */
  async rotateSecret(id: string, keepOldS: number, by: Author): Promise<WebhookWithSecretDto> {
    const { text, stored } = this.secrets.generate(id);
    const webhook = await this.#change(id, by, ({ secret }, now) => ({
      set: {
        secret: stored,
        oldSecret: keepOldS === 0 ? null : secret,
        oldSecretUntil: keepOldS === 0 ? null : new Date(now.getTime() + keepOldS * 1000),
      },
      entry: { action: 'webhook.rotate', before: {}, after: { keep_old_s: keepOldS } },
    }));
    return { ...webhook, secret: text };
  }

  /**
   * Sends what happened since `from` again. With `until` beside what is new, else the webhook is set back. It takes the place of
   * a replay that has not ended.
   * @throws InvalidRequest for a time in the future, or an end before the beginning
   */
  async replay(id: string, body: ReplayDto, by: Author): Promise<WebhookDto> {
    return this.#change(id, by, async (_, now) => {
      const from = readTime(body.from, now.getTime(), -1) ?? now;
      const until = body.until === undefined ? undefined : (readTime(body.until, now.getTime(), -1) ?? now);
      if (from > now) throw new InvalidRequest(VALIDATION_FAILED, ['from must not lie in the future']);
      if (until !== undefined && until < from) {
        throw new InvalidRequest(VALIDATION_FAILED, ['until must not be before from']);
      }
      const position = await this.reader.positionAt(from, now, until);
      const after = { from: position.from, until: position.until ?? null };
      return {
        set: until === undefined ? { position, replay: null } : { replay: position },
        entry: { action: 'webhook.replay', before: {}, after },
      };
    });
  }

  async #change(id: string, by: Author, change: WebhookChange): Promise<WebhookDto> {
    const changed = isRunId(id) ? await this.webhooks.change(id, by, change) : null;
    if (!changed) throw new WebhookNotFound(id);
    return toWebhookDto(changed);
  }

  async #checkUrl(url: string): Promise<void> {
    try {
      await this.addresses.check(url);
    } catch (error) {
      if (!(error instanceof AddressRefused)) throw error;
      throw new InvalidRequest(VALIDATION_FAILED, [error.message]);
    }
  }
}
