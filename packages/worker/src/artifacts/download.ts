import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import { Backoff } from '@longshore/common/backoff';
import { errorCode, errorText } from '@longshore/common/errors';
import { AddressRefused, PublicAddresses } from '@longshore/common/public-addresses';
import { readOwnCas } from '@longshore/common/own-ca';
import type { Clock } from '../process/clock.js';
import { DiskFull, type FileCache, type IncomingFile } from './file-cache.js';

/** How often a file is tried, at most, and the pauses between. */
export const TRIES = 5;
export const RETRY = { firstMs: 500, maxMs: 15_000 };

/** How long a store may be silent, in milliseconds. */
export const SILENCE_MS = 60_000;

const MAX_REDIRECTS = 5;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** 4xx answers that allow a retry. */
const RETRYABLE: ReadonlySet<number> = new Set([408, 425, 429]);
/** Answers of stores to a URL that has expired, or was signed by a session that has. */
const EXPIRED: ReadonlySet<number> = new Set([400, 401, 403]);
/** Bytes after which the space on the disk is looked at again. */
const ROOM_EVERY = 64 * 2 ** 20;

/** What no worker could fetch: the run would fail everywhere. */
export class NotFetched extends Error {}

/** The store refuses the URL. */
class UrlRefused extends NotFetched {}

/** What is to be fetched. */
export interface Wanted {
  readonly url: string;
  /** Gives a URL for one that has expired; null: the URL is a user's: only public addresses, over https. */
  readonly renew: (() => Promise<string>) | null;
  /** Null: not known. */
  readonly bytes: number | null;
  /** Null: not known. */
  readonly sha256: string | null;
}

export interface DownloadParts {
  readonly cache: FileCache;
  readonly addresses: PublicAddresses;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Where the files of a worker's runs come from. */
export type FileParts = Pick<DownloadParts, 'cache' | 'addresses'>;

/** Rules for the URLs of users. @param networks SERVICE_WORKER_FETCH_NETWORKS; null: none */
export function fetchAddresses(networks: string | null): PublicAddresses {
  const setting = 'SERVICE_WORKER_FETCH_NETWORKS';
  return new PublicAddresses({ isHttpAllowed: false, networks: networks ?? undefined, setting });
}

/**
 * Fetches a file to the disk of the worker, resumed where a connection broke, with a new URL when the store refuses the one there was.
 * @param count gets the number of bytes that are there
 * @throws NotFetched when it is not there, has another checksum or must not be fetched
 * @throws Error with the reason when the store is away for all tries, or the disk is full
 */
export async function download(
  wanted: Wanted,
  { cache, addresses, clock, random }: DownloadParts,
  signal: AbortSignal,
  count: (bytes: number) => void,
): Promise<{ readonly file: IncomingFile; readonly bytes: number }> {
  const file = await cache.begin(wanted.bytes ?? 0);
  try {
    const state = new Receiving(file, cache, wanted, count);
    const backoff = new Backoff(RETRY, random);
    const { renew } = wanted;
    let { url } = wanted;
    /** What was there when the URL was new. */
    let newAt = -1;
    for (;;) {
      try {
        await receive(url, renew === null ? addresses : null, state, signal);
        break;
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof UrlRefused && renew !== null && state.bytes > newAt) {
          newAt = state.bytes;
          url = await renew();
          continue;
        }
        if (backoff.failures === TRIES - 1 || isFinal(error)) throw error;
      }
      await clock.sleep(backoff.nextMs(), signal);
      signal.throwIfAborted();
    }
    state.check();
    await file.handle.close();
    return { file, bytes: state.bytes };
  } catch (error) {
    await cache.discard(file);
    if (isRefusal(error)) throw new NotFetched(errorText(error));
    throw errorCode(error) === 'ENOSPC' ? new DiskFull('the disk of the worker is full') : error;
  }
}

function isFinal(error: unknown): boolean {
  return (
    error instanceof NotFetched ||
    isRefusal(error) ||
    error instanceof DiskFull ||
    errorCode(error) === 'ENOSPC'
  );
}

/** Whether no worker may connect. Where names cannot be looked up for now, another try may. */
function isRefusal(error: unknown): boolean {
  return error instanceof AddressRefused && !error.message.endsWith('EAI_AGAIN');
}

/** What is there of a file. */
class Receiving {
  bytes = 0;
  /** Of the version that is being fetched; undefined: the store says none. */
  etag: string | undefined;
  private hash = createHash('sha256');
  private roomAt = 0;

  constructor(
    private readonly file: IncomingFile,
    private readonly cache: FileCache,
    private readonly wanted: Wanted,
    private readonly count: (bytes: number) => void,
  ) {}

  async write(chunk: Buffer): Promise<void> {
    const { bytes: total } = this.wanted;
    if (total !== null && this.bytes + chunk.length > total)
      throw new NotFetched(`it has more than ${total} bytes`);
    if (this.bytes >= this.roomAt) {
      await this.cache.makeRoom(0);
      this.roomAt = this.bytes + ROOM_EVERY;
    }
    for (let at = 0; at < chunk.length;) {
      const { bytesWritten } = await this.file.handle.write(chunk, at, chunk.length - at, this.bytes + at);
      at += bytesWritten;
    }
    this.hash.update(chunk);
    this.bytes += chunk.length;
    this.count(this.bytes);
  }

  /** From the beginning: the store gives no rest, or another version. */
  async restart(): Promise<void> {
    await this.file.handle.truncate(0);
    this.hash = createHash('sha256');
    this.bytes = 0;
    this.roomAt = 0;
  }

  /** @throws NotFetched when it is not what was wanted */
  check(): void {
    const { bytes, sha256 } = this.wanted;
    if (bytes !== null && this.bytes !== bytes)
      throw new NotFetched(`it has ${this.bytes} bytes, not ${bytes}`);
    const found = this.hash.digest('hex');
    if (sha256 !== null && found !== sha256) throw new NotFetched(`its checksum is ${found}, not ${sha256}`);
  }
}

/** Tries once. */
async function receive(
  url: string,
  addresses: PublicAddresses | null,
  state: Receiving,
  signal: AbortSignal,
): Promise<void> {
  const answer = await request(url, addresses, rangeOf(state), signal);
  const { statusCode: status, headers, body } = answer;
  if (status === 206 && startOf(headers) === state.bytes) {
    for await (const chunk of body) await state.write(Buffer.from(chunk));
    return;
  }
  if (status === 200) {
    if (state.bytes > 0) await state.restart();
    state.etag = strongTag(headers);
    for await (const chunk of body) await state.write(Buffer.from(chunk));
    return;
  }
  await body.dump();
  // The rest is empty, or of another version.
  if (status === 416 || status === 206) {
    await state.restart();
    throw new Error(`the store gives no rest of it (HTTP ${status})`);
  }
  if (EXPIRED.has(status)) throw new UrlRefused(`its store answers HTTP ${status}`);
  const isFault = status >= 300 && status < 500 && !RETRYABLE.has(status);
  throw new (isFault ? NotFetched : Error)(
    status === 404 || status === 410
      ? `it is not there (HTTP ${status})`
      : `its store answers HTTP ${status}`,
  );
}

function rangeOf({ bytes, etag }: Receiving): Record<string, string> {
  if (bytes === 0) return {};
  return { range: `bytes=${bytes}-`, ...(etag === undefined ? {} : { 'if-range': etag }) };
}

/** Where the content of a 206 begins; undefined: it does not say. */
function startOf(headers: IncomingHttpHeaders): number | undefined {
  const [, start] = /^bytes (\d+)-/.exec(headers['content-range'] ?? '') ?? [];
  return start === undefined ? undefined : Number(start);
}

function strongTag({ etag }: IncomingHttpHeaders): string | undefined {
  return etag?.startsWith('"') === true ? etag : undefined;
}

/** @param addresses null: the URL is the service's, which may be anywhere and does not redirect */
async function request(
  first: string,
  addresses: PublicAddresses | null,
  headers: Record<string, string>,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  const undici = await import('undici');
  const options = {
    headers: { 'user-agent': 'longshore-worker', ...headers },
    signal,
    headersTimeout: SILENCE_MS,
    bodyTimeout: SILENCE_MS,
  };
  if (addresses === null) return undici.request(first, options);
  // Not through a proxy: it would connect to addresses that are not checked here.
  const ca = readOwnCas(process.env);
  const { lookup } = addresses;
  const dispatcher = new undici.Agent({ connect: { lookup, ...(ca && { ca: [...ca] }) } });
  try {
    let url = addresses.checkUrl(first);
    for (let redirects = 0; ; redirects++) {
      const answer = await undici.request(url, { ...options, dispatcher });
      const { location } = answer.headers;
      if (!REDIRECTS.has(answer.statusCode) || typeof location !== 'string') return answer;
      await answer.body.dump();
      if (redirects === MAX_REDIRECTS)
        throw new NotFetched(`it is behind more than ${MAX_REDIRECTS} redirects`);
      url = addresses.checkUrl(URL.canParse(location, url.href) ? new URL(location, url).href : location);
    }
  } catch (error) {
    throw refusalIn(error) ?? error;
  } finally {
    // Ends when the answer has been read.
    void dispatcher.close().catch(() => undefined);
  }
}

/** What a connection has failed with when its address was refused. */
function refusalIn(error: unknown): AddressRefused | undefined {
  if (error instanceof AddressRefused) return error;
  return error instanceof Error && error.cause instanceof AddressRefused ? error.cause : undefined;
}
