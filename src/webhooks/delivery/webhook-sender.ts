import { createHmac } from 'node:crypto';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { errorCode, errorText } from '@longshore/common/errors';
import { monotonicMs } from '../../common/monotonic-ms.js';
import type { WebhookDeliveryEntity } from '../../database/entities/webhook.entity.js';
import { WebhookSecrets, type SigningWebhook } from '../webhook-secrets.js';
import { EndpointAddresses } from './endpoint-addresses.js';

/** Milliseconds from the look-up of the name to the end of the answer. */
const SEND_TIMEOUT_MS = 15_000;
/** Bytes of an answer that are read, and characters that are kept. */
const READ_BYTES = 16_384;
const KEPT_CHARACTERS = 512;

/** What is sent. */
export type Message = Pick<WebhookDeliveryEntity, 'messageId' | 'type' | 'subject' | 'body'>;

/** What came of one try. */
export interface Attempt extends Pick<WebhookDeliveryEntity, 'status' | 'detail'> {
  readonly isDelivered: boolean;
  readonly durationMs: number;
  /** What the endpoint asks for, in seconds; 0: nothing. */
  readonly retryAfterS: number;
}

/** Sends messages as Standard Webhooks 1.0 describes, with connections that are kept open between them. */
@Injectable()
export class WebhookSender implements OnModuleDestroy {
  readonly #agents: Readonly<Record<string, http.Agent>>;

  constructor(
    private readonly addresses: EndpointAddresses,
    private readonly secrets: WebhookSecrets,
  ) {
    this.#agents = {
      'http:': new http.Agent({ keepAlive: true }),
      'https:': new https.Agent({ keepAlive: true }),
    };
  }

  onModuleDestroy(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  /** Tries once. A redirect is a failure. @param stop ends the try, which then has failed */
  async send(webhook: SigningWebhook, message: Message, stop?: AbortSignal): Promise<Attempt> {
    const startedAt = monotonicMs();
    const signal = AbortSignal.any([AbortSignal.timeout(SEND_TIMEOUT_MS), ...(stop ? [stop] : [])]);
    const durationMs = (): number => Math.round(monotonicMs() - startedAt);
    try {
      const answer = await this.#request(webhook, message, signal);
      const status = answer.statusCode ?? 0;
      return {
        isDelivered: status >= 200 && status < 300,
        status,
        detail: await readBeginning(answer),
        durationMs: durationMs(),
        retryAfterS: readRetryAfter(answer.headers['retry-after']),
      };
    } catch (error) {
      const isTimeout = signal.aborted && stop?.aborted !== true;
      const detail = isTimeout
        ? `no answer within ${SEND_TIMEOUT_MS / 1000} s`
        : errorText(error) || errorCode(error);
      return {
        isDelivered: false,
        status: null,
        detail: kept(detail),
        durationMs: durationMs(),
        retryAfterS: 0,
      };
    }
  }

  #request(webhook: SigningWebhook, message: Message, signal: AbortSignal): Promise<IncomingMessage> {
    const url = this.addresses.checkUrl(webhook.url);
    const body = Buffer.from(message.body);
    const timestamp = Math.floor(Date.now() / 1000);
    const signed = `${message.messageId}.${timestamp}.${message.body}`;
    const signatures = this.secrets
      .keysOf(webhook)
      .map((key) => `v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
    const { request } = url.protocol === 'https:' ? https : http;
    return new Promise((resolve, reject) => {
      const sent = request(url, {
        method: 'POST',
        agent: this.#agents[url.protocol],
        lookup: this.addresses.lookup,
        signal,
        headers: {
          'content-type': 'application/json',
          'content-length': body.length,
          'user-agent': 'longshore',
          'webhook-id': message.messageId,
          'webhook-timestamp': timestamp,
          'webhook-signature': signatures.join(' '),
        },
      });
      sent.once('response', resolve);
      sent.on('error', (error) => {
        // The endpoint may close a connection at the moment at which it is used again.
        if (sent.reusedSocket && errorCode(error) === 'ECONNRESET')
          resolve(this.#request(webhook, message, signal));
        else reject(error);
      });
      sent.end(body);
    });
  }
}

/** The beginning of an answer as text. One that breaks off or is too long has a beginning, too. */
async function readBeginning(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of answer) {
      chunks.push(Buffer.from(chunk));
      bytes += Buffer.byteLength(chunk);
      // Leaving the loop closes the connection.
      if (bytes > READ_BYTES) break;
    }
  } catch {
    // The status has decided already.
  }
  return kept(Buffer.concat(chunks).toString('utf8'));
}

/** PostgreSQL has no NUL in texts. */
function kept(text: string): string {
  return text.slice(0, KEPT_CHARACTERS).toWellFormed().replaceAll('\0', '');
}

function readRetryAfter(value: string | undefined): number {
  if (value === undefined) return 0;
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : 0;
}
