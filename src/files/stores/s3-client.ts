import { setTimeout as sleep } from 'node:timers/promises';
import { AwsV4Signer } from 'aws4fetch';
import { monotonicMs } from '../../common/monotonic-ms.js';
import { hostOf, type BucketAddress, type Credentials } from '../../config/file-stores.js';
import { StoreUnavailable } from './stores.errors.js';

/** URLs of a bucket are valid for at most a week. */
const MAX_VALID_S = 7 * 24 * 3600;
const REQUEST_VALID_S = 300;
const TIMEOUT_MS = 5_000;
const RETRY_MS = 200;

export interface S3Request {
  readonly method: 'GET' | 'PUT' | 'POST' | 'HEAD' | 'DELETE';
  /** Below the prefix; undefined: the bucket itself. */
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface S3Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** Signs requests to a bucket (Signature Version 4, all in the query), and makes those of the service. */
export class S3Client {
  /** @param credentials asked for each request: they may change */
  constructor(
    private readonly address: BucketAddress,
    private readonly credentials: () => Credentials,
  ) {}

  /** Signs a request that somebody else makes. */
  async sign(
    request: S3Request,
    validS: number,
  ): Promise<{ readonly url: string; readonly expiresAt: Date }> {
    const seconds = Math.max(1, Math.min(MAX_VALID_S, Math.ceil(validS)));
    const expiresAt = new Date(Date.now() + seconds * 1000);
    return { url: await this.#sign(this.address.publicEndpoint, request, seconds), expiresAt };
  }

  /**
   * Makes a request, again if the bucket is busy or cannot be reached and there is time.
   * @returns an answer below 500, also of an error
   * @throws StoreUnavailable
   */
  async send(
    request: S3Request,
    { body, timeoutMs = TIMEOUT_MS }: { body?: string; timeoutMs?: number } = {},
  ): Promise<S3Answer> {
    const deadline = monotonicMs() + timeoutMs;
    for (let pauseMs = RETRY_MS; ; pauseMs *= 2) {
      const leftMs = Math.max(1, Math.ceil(deadline - monotonicMs()));
      const answer = await this.#try(request, body, leftMs).catch((error: unknown) =>
        toUnavailable(error, this.address),
      );
      const isBusy = answer instanceof StoreUnavailable || answer.status >= 500 || answer.status === 429;
      if (!isBusy) return answer;
      if (monotonicMs() + pauseMs >= deadline) {
        throw answer instanceof StoreUnavailable ? answer : refusal(answer);
      }
      await sleep(pauseMs);
    }
  }

  /** The key of the object at a URL of this bucket. */
  keyOf(url: URL): string | undefined {
    const { endpoint, publicEndpoint, prefix } = this.address;
    for (const origin of new Set([publicEndpoint, endpoint])) {
      const base = this.#urlOf(origin, '');
      const start = base.pathname.endsWith('/') ? base.pathname : `${base.pathname}/`;
      if (url.origin !== base.origin || !url.pathname.startsWith(start)) continue;
      const key = decoded(url.pathname.slice(start.length));
      if (key?.startsWith(prefix) === true && key !== prefix) return key.slice(prefix.length);
    }
    return undefined;
  }

  async #try(request: S3Request, body: string | undefined, timeoutMs: number): Promise<S3Answer> {
    const url = await this.#sign(this.address.endpoint, request, REQUEST_VALID_S);
    const { method, headers = {} } = request;
    const signal = AbortSignal.timeout(timeoutMs);
    const response = await fetch(url, {
      method,
      headers,
      redirect: 'manual',
      signal,
      ...(body === undefined ? {} : { body }),
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  async #sign(
    origin: string,
    { method, key, query = {}, headers = {} }: S3Request,
    validS: number,
  ): Promise<string> {
    const url = this.#urlOf(origin, key === undefined ? '' : this.address.prefix + key);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    url.searchParams.set('X-Amz-Expires', String(validS));
    const { accessKeyId, secretAccessKey, sessionToken } = this.credentials();
    const signer = new AwsV4Signer({
      method,
      url: url.href,
      headers: { ...headers },
      accessKeyId,
      secretAccessKey,
      ...(sessionToken === undefined ? {} : { sessionToken }),
      service: 's3',
      region: this.address.region,
      signQuery: true,
      // With the length and the type of the content.
      allHeaders: true,
    });
    const signature = await signer.signature();
    // As they were signed: URL would write blanks of the query in another way.
    return `${url.origin}${signer.encodedPath}?${signer.encodedSearch}&X-Amz-Signature=${signature}`;
  }

  #urlOf(origin: string, key: string): URL {
    const { isPathStyle, bucket } = this.address;
    const path = key.split('/').map(encodeURIComponent).join('/');
    const url = hostOf(this.address, origin);
    url.pathname = isPathStyle ? `/${bucket}${path === '' ? '' : `/${path}`}` : `/${path}`;
    return url;
  }
}

/** What a bucket answered that it should not have. */
export function refusal({ status, text }: S3Answer): StoreUnavailable {
  const code = textOf(text, 'Code');
  return new StoreUnavailable(`the bucket answers ${status}${code === undefined ? '' : ` ${code}`}`);
}

function toUnavailable(error: unknown, { endpoint }: BucketAddress): StoreUnavailable {
  const { cause } = Object(error);
  const { code, name = 'an error' } = Object(cause ?? error);
  const reason = name === 'TimeoutError' ? 'no answer in time' : (code ?? name);
  return new StoreUnavailable(`${endpoint} cannot be reached: ${reason}`, error);
}

function decoded(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

/** The contents of the elements of a name, in their order; elements of one name are not inside each other in answers of S3. */
export function elementsOf(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}(?: [^>]*)?>(.*?)</${name}>`, 'gs'))].map(
    ([, text = '']) => text,
  );
}

/** The text of the first element of a name. */
export function textOf(xml: string, name: string): string | undefined {
  return elementsOf(xml, name)[0]?.replaceAll(
    /&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi,
    (all, decimal, hex, entity) => {
      if (entity !== undefined) return ENTITIES[entity] ?? all;
      return String.fromCodePoint(decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal));
    },
  );
}

/** A text within an element. */
export function escapeXml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
