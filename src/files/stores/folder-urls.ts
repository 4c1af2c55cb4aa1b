import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../../common/clock.js';
import type { GetOptions, PutOptions, SignedUrl } from './file-store.js';
import { checkKey } from './folder-paths.js';
import { UrlRefused } from './stores.errors.js';

/** Path of the route that serves a folder. */
export const FOLDER_ROUTE = 'file-store';

const SIGNED = /^(?<terms>.+)&signature=(?<signature>[0-9a-f]{64})$/;
const IN_PATH = new RegExp(`/${FOLDER_ROUTE}/(.+)$`);

/** What the query of a signed URL says. */
export interface UrlTerms {
  readonly name: string | null;
  readonly contentType: string | null;
  readonly bytes: number | null;
  readonly sha256: string | null;
  readonly isOnce: boolean;
}

/** URLs of a folder's objects, signed by HMAC-SHA256 over method, key and query. */
export class FolderUrls {
  /** @param baseUrl with which all URLs begin; undefined: that of each request */
  constructor(
    private readonly secret: Buffer,
    private readonly baseUrl: string | undefined,
    private readonly clock: Pick<Clock, 'epochMs'>,
  ) {}

  /** @throws RangeError for a key that no object can have, or without an address */
  sign(method: 'GET' | 'PUT', key: string, options: GetOptions & PutOptions): SignedUrl {
    const base = this.baseUrl ?? options.base;
    if (base === undefined) throw new RangeError('a URL of a folder needs the address of the service');
    const path = checkKey(key).map(encodeURIComponent).join('/');
    const expires = Math.ceil(this.clock.epochMs() / 1000 + options.validS);
    const terms = Object.entries({
      expires,
      name: options.name,
      type: options.contentType,
      bytes: options.bytes,
      sha256: options.sha256,
      once: options.isOnce === true ? 1 : undefined,
    })
      .flatMap(([term, value]) => (value === undefined ? [] : [`${term}=${encodeURIComponent(value)}`]))
      .join('&');
    return {
      method,
      url: `${base.replace(/\/$/, '')}/${FOLDER_ROUTE}/${path}?${terms}&signature=${this.#sign(method, key, terms)}`,
      headers: {},
      expiresAt: new Date(expires * 1000),
    };
  }

  /** @param query as it was sent @throws UrlRefused */
  verify(method: 'GET' | 'PUT', key: string, query: string): UrlTerms {
    const { terms = '', signature = '' } = SIGNED.exec(query)?.groups ?? {};
    const expected = Buffer.from(this.#sign(method, key, terms));
    const given = Buffer.from(signature);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
      throw new UrlRefused('The signature of the URL is wrong');
    }
    const values = new URLSearchParams(terms);
    if (Number(values.get('expires')) * 1000 <= this.clock.epochMs())
      throw new UrlRefused('The URL has expired');
    const bytes = values.get('bytes');
    return {
      name: values.get('name'),
      contentType: values.get('type'),
      bytes: bytes === null ? null : Number(bytes),
      sha256: values.get('sha256'),
      isOnce: values.has('once'),
    };
  }

  /** The key of the object at a URL, at whatever address of the service. */
  keyOf({ pathname }: URL): string | undefined {
    const path = IN_PATH.exec(pathname)?.[1];
    try {
      return path === undefined ? undefined : checkKey(decodeURIComponent(path)).join('/');
    } catch {
      return undefined;
    }
  }

  #sign(method: string, key: string, terms: string): string {
    return createHmac('sha256', this.secret).update(`${method}\n${key}\n${terms}`).digest('hex');
  }
}
