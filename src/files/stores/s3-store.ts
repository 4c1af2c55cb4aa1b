import { create as contentDisposition } from 'content-disposition';
import type { BucketAddress, Credentials } from '../../config/file-stores.js';
import type {
  FileStore,
  GetOptions,
  ListOptions,
  PartUploads,
  PutOptions,
  SignedUrl,
  StoredObject,
} from './file-store.js';
import {
  elementsOf,
  escapeXml,
  refusal,
  S3Client,
  textOf,
  type S3Answer,
  type S3Request,
} from './s3-client.js';
import { PartsRefused } from './stores.errors.js';

/** Most keys of one answer. */
const PAGE = 1000;
/** Removals at the same time. */
const REMOVALS = 16;
/** S3 puts large objects together while the client waits, which may take several minutes. */
const COMPLETE_TIMEOUT_MS = 600_000;

/** Refusals of parts, by their codes. */
const PART_FAULTS: ReadonlySet<string | undefined> = new Set([
  'InvalidPart',
  'InvalidPartOrder',
  'EntityTooSmall',
  'MalformedXML',
  'InvalidRequest',
]);

/** Objects in a bucket. Clients and workers send and fetch the bytes themselves. */
export class S3Store implements FileStore {
  readonly parts: PartUploads;
  readonly #client: S3Client;

  constructor(
    private readonly address: BucketAddress,
    credentials: () => Credentials,
  ) {
    this.#client = new S3Client(address, credentials);
    this.parts = new S3Parts(this.#client, (key) => this.head(key));
  }

  async signGet(key: string, { validS, name, contentType }: GetOptions): Promise<SignedUrl> {
    const query = {
      'response-content-disposition': contentDisposition(name ?? key.split('/').at(-1)),
      ...(contentType === undefined ? {} : { 'response-content-type': contentType }),
    };
    const signed = await this.#client.sign({ method: 'GET', key, query }, validS);
    return { method: 'GET', headers: {}, ...signed };
  }

  async signPut(key: string, { validS, bytes, sha256, contentType, isOnce }: PutOptions): Promise<SignedUrl> {
    const headers = {
      ...(bytes === undefined ? {} : { 'Content-Length': String(bytes) }),
      ...(contentType === undefined ? {} : { 'Content-Type': contentType }),
      ...(sha256 === undefined
        ? {}
        : { 'x-amz-checksum-sha256': Buffer.from(sha256, 'hex').toString('base64') }),
      ...(isOnce === true ? { 'If-None-Match': '*' } : {}),
    };
    return { method: 'PUT', headers, ...(await this.#client.sign({ method: 'PUT', key, headers }, validS)) };
  }

  async head(key: string): Promise<StoredObject | undefined> {
    const answer = await this.#client.send({
      method: 'HEAD',
      key,
      headers: { 'x-amz-checksum-mode': 'ENABLED' },
    });
    if (answer.status === 404) return undefined;
    if (answer.status !== 200) throw refusal(answer);
    const { headers } = answer;
    return {
      key,
      bytes: Number(headers.get('content-length')),
      etag: headers.get('etag') ?? '',
      sha256: toHex(headers.get('x-amz-checksum-sha256')),
      modifiedAt: new Date(headers.get('last-modified') ?? 0),
    };
  }

  async remove(keys: readonly string[]): Promise<void> {
    for (let start = 0; start < keys.length; start += REMOVALS) {
      const requests = keys.slice(start, start + REMOVALS).map(async (key) => {
        const answer = await this.#client.send({ method: 'DELETE', key });
        if (answer.status !== 404) assertSuccess(answer);
      });
      await Promise.all(requests);
    }
  }

  async list(prefix: string, { after, limit }: ListOptions): Promise<readonly StoredObject[]> {
    const objects: StoredObject[] = [];
    let last = after;
    while (objects.length < limit) {
      const size = Math.min(PAGE, limit - objects.length);
      const { text } = assertSuccess(await this.#client.send(this.#listing(prefix, size, last)));
      const page = elementsOf(text, 'Contents').map((xml) => this.#toObject(xml));
      objects.push(...page);
      last = page.at(-1)?.key;
      if (last === undefined || textOf(text, 'IsTruncated') !== 'true') break;
    }
    return objects;
  }

  async read(key: string): Promise<string | undefined> {
    const answer = await this.#client.send({ method: 'GET', key });
    return answer.status === 404 ? undefined : assertSuccess(answer).text;
  }

  async write(key: string, text: string): Promise<void> {
    assertSuccess(await this.#client.send({ method: 'PUT', key }, { body: text }));
  }

  async seal(): Promise<void> {
    // A bucket cannot; readers compare ETags.
  }

  keyOf(url: URL): string | undefined {
    return this.#client.keyOf(url);
  }

  async probe(): Promise<void> {
    assertSuccess(await this.#client.send(this.#listing('', 1)));
  }

  #listing(prefix: string, size: number, after?: string): S3Request {
    const { prefix: own } = this.address;
    const query = {
      'list-type': '2',
      prefix: own + prefix,
      'max-keys': String(size),
      ...(after === undefined ? {} : { 'start-after': own + after }),
    };
    return { method: 'GET', query };
  }

  #toObject(xml: string): StoredObject {
    return {
      key: (textOf(xml, 'Key') ?? '').slice(this.address.prefix.length),
      bytes: Number(textOf(xml, 'Size')),
      etag: textOf(xml, 'ETag') ?? '',
      sha256: null,
      modifiedAt: new Date(textOf(xml, 'LastModified') ?? 0),
    };
  }
}

class S3Parts implements PartUploads {
  /** By the ids of their uploads, objects that the store puts together: who asks again meanwhile waits for the same. */
  readonly #completing = new Map<string, Promise<StoredObject>>();

  constructor(
    private readonly client: S3Client,
    private readonly head: (key: string) => Promise<StoredObject | undefined>,
  ) {}

  async start(key: string, contentType?: string): Promise<string> {
    const headers: Record<string, string> = contentType === undefined ? {} : { 'Content-Type': contentType };
    const answer = assertSuccess(
      await this.client.send({ method: 'POST', key, query: { uploads: '' }, headers }, { body: '' }),
    );
    const id = textOf(answer.text, 'UploadId');
    if (id === undefined) throw refusal(answer);
    return id;
  }

  async signPart(
    key: string,
    uploadId: string,
    number: number,
    { bytes, validS }: { readonly bytes: number; readonly validS: number },
  ): Promise<SignedUrl> {
    const headers = { 'Content-Length': String(bytes) };
    const query = { partNumber: String(number), uploadId };
    const signed = await this.client.sign({ method: 'PUT', key, query, headers }, validS);
    return { method: 'PUT', headers, ...signed };
  }

  async complete(key: string, uploadId: string, etags: readonly string[]): Promise<StoredObject> {
    const running = this.#completing.get(uploadId);
    if (running !== undefined) return running;
    const completing = this.#complete(key, uploadId, etags).finally(() => this.#completing.delete(uploadId));
    this.#completing.set(uploadId, completing);
    return completing;
  }

  async abort(key: string, uploadId: string): Promise<void> {
    const answer = await this.client.send({ method: 'DELETE', key, query: { uploadId } });
    if (answer.status !== 404) assertSuccess(answer);
  }

  async #complete(key: string, uploadId: string, etags: readonly string[]): Promise<StoredObject> {
    const parts = etags.map(
      (etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${escapeXml(etag)}</ETag></Part>`,
    );
    const body = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join('')}</CompleteMultipartUpload>`;
    const request = { method: 'POST', key, query: { uploadId } } as const;
    const answer = await this.client.send(request, { body, timeoutMs: COMPLETE_TIMEOUT_MS });
    const code = textOf(answer.text, 'Code');
    if (PART_FAULTS.has(code)) {
      throw new PartsRefused(
        `The store does not have these parts: ${textOf(answer.text, 'Message') ?? code}`,
      );
    }
    // An earlier request may have completed the upload; its answer was lost.
    const isDone = answer.status === 404;
    // The status 200 may come before an error.
    if (!isDone && (answer.status !== 200 || code !== undefined)) throw refusal(answer);
    const object = await this.head(key);
    if (object === undefined) throw new PartsRefused('The upload does not exist: it was aborted');
    return object;
  }
}

/** @throws StoreUnavailable */
function assertSuccess(answer: S3Answer): S3Answer {
  if (answer.status < 200 || answer.status > 299) throw refusal(answer);
  return answer;
}

/** A checksum of a whole object; those of parts put together end in `-` and their number. */
function toHex(base64: string | null): string | null {
  return base64 === null || !/^[A-Za-z0-9+/]{43}=$/.test(base64)
    ? null
    : Buffer.from(base64, 'base64').toString('hex');
}
