import { randomBytes } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { WebhookEntity } from '../database/entities/webhook.entity.js';
import { SecretCipher } from '../secrets/secret-cipher.js';

const SECRET_BYTES = 32;

/** What a message to a webhook is sent with. The old secret is null when it has expired. */
export type SigningWebhook = Pick<WebhookEntity, 'id' | 'url' | 'secret' | 'oldSecret'>;

/** Generates the secrets of webhooks and decrypts them. Every method throws SecretsNotConfigured without SERVICE_SECRETS_KEY. */
@Injectable()
export class WebhookSecrets {
  constructor(private readonly cipher: SecretCipher) {}

  /** @returns the secret as receivers take it, and as it is stored */
  generate(webhookId: string): { readonly text: string; readonly stored: Buffer } {
    const key = randomBytes(SECRET_BYTES);
    const stored = this.cipher.encrypt({ name: webhookId, kind: 'webhook' }, key);
    return { text: `whsec_${key.toString('base64')}`, stored };
  }

  /** The keys that sign, the newest first. */
  keysOf({ id, secret, oldSecret }: SigningWebhook): Buffer[] {
    const stored = oldSecret ? [secret, oldSecret] : [secret];
    return stored.map((ciphertext) => this.cipher.decrypt({ name: id, kind: 'webhook' }, ciphertext));
  }
}
