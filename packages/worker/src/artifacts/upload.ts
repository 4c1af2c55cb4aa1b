import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { Backoff } from '@longshore/common/backoff';
import { errorCode, errorText } from '@longshore/common/errors';
import { storeRefusal } from '@longshore/common/store-answer';
import type { Clock } from '../process/clock.js';
import type { OpenedFile } from '../runtime/runtime.js';
import type { SignedRequest, StoredArtifact, Upload } from '../service-api/run-artifacts.js';
import { RETRY, SILENCE_MS, TRIES } from './download.js';

export interface UploadParts {
  readonly clock: Clock;
  readonly random: () => number;
}

/** A file that is sent. */
export interface SentFile {
  readonly name: string;
  readonly bytes: number;
  /** From its beginning. Null: it is gone. */
  open(): Promise<OpenedFile | null>;
  /** Fresh URLs. @param firstPart of an upload in parts: it goes on from this one */
  fresh(firstPart?: number): Promise<Upload>;
}

/**
 * Sends a file, in one piece or in parts, each five times at most and with a new URL each time.
 * @param count gets the number of bytes that are sent
 * @throws Error with the reason when the store does not take it
 */
export async function send(
  file: SentFile,
  upload: Upload,
  parts: UploadParts,
  signal: AbortSignal,
  count: (bytes: number) => void,
): Promise<Pick<StoredArtifact, 'sha256' | 'etags'>> {
  const sending = new Sending(file, parts, signal, count);
  if (upload.kind === 'whole') {
    const again = async (): Promise<SignedRequest> => {
      const fresh = await file.fresh();
      return fresh.kind === 'whole' ? fresh.request : upload.request;
    };
    await sending.sendPiece(upload.request, file.bytes, again);
    return { sha256: sending.end() };
  }
  const etags: string[] = [];
  let rest = upload.parts;
  for (let [part] = rest; part !== undefined; [part] = rest) {
    const again = async (): Promise<SignedRequest> => {
      const fresh = await file.fresh(etags.length + 1);
      const [first, ...others] = fresh.kind === 'parts' ? fresh.parts : [];
      if (first?.bytes !== part?.bytes || others.length !== rest.length - 1)
        throw new Error(`The artifact '${file.name}' could not be stored: its parts have changed`);
      rest = [first, ...others];
      return first;
    };
    etags.push(await sending.sendPiece(part, part.bytes, again));
    rest = rest.slice(1);
  }
  return { sha256: sending.end(), etags };
}

/** One file on its way, in pieces that follow each other. */
class Sending {
  private reading: Reading | null = null;
  private hash = createHash('sha256');
  private sent = 0;

  constructor(
    private readonly file: SentFile,
    private readonly parts: UploadParts,
    private readonly signal: AbortSignal,
    private readonly count: (bytes: number) => void,
  ) {}

  /** @param again gives the request of another try. @returns the entity tag that the store gave; empty: none */
  async sendPiece(first: SignedRequest, bytes: number, again: () => Promise<SignedRequest>): Promise<string> {
    const { clock, random } = this.parts;
    const backoff = new Backoff(RETRY, random);
    let request = first;
    for (let tries = 1; ; tries++) {
      try {
        return await this.tryPiece(request, bytes);
      } catch (error) {
        this.close();
        this.signal.throwIfAborted();
        if (tries === TRIES) {
          const why = errorText(error) || errorCode(error);
          throw new Error(`The artifact '${this.file.name}' could not be stored: ${why}`, { cause: error });
        }
      }
      await clock.sleep(backoff.nextMs(), this.signal);
      this.signal.throwIfAborted();
      request = await again();
    }
  }

  /** @returns the checksum of all */
  end(): string {
    this.close();
    return this.hash.digest('hex');
  }

  private async tryPiece(request: SignedRequest, bytes: number): Promise<string> {
    this.reading ??= await Reading.open(this.file, this.sent);
    const hash = this.hash.copy();
    let moved = this.sent;
    const body = this.reading.take(bytes, (chunk) => {
      hash.update(chunk);
      moved += chunk.length;
      this.count(moved);
    });
    const etag = await put(request, bytes, body, this.signal);
    this.hash = hash;
    this.sent += bytes;
    return etag;
  }

  private close(): void {
    this.reading?.close();
    this.reading = null;
  }
}

/** An open file that is read piece by piece. */
class Reading {
  private readonly chunks: AsyncIterator<unknown>;
  private rest: Buffer = Buffer.alloc(0);

  private constructor(private readonly opened: OpenedFile) {
    this.chunks = opened.content[Symbol.asyncIterator]();
  }

  /** @param offset where the reading begins */
  static async open(file: SentFile, offset: number): Promise<Reading> {
    const opened = await file.open();
    if (opened?.bytes !== file.bytes) throw new Error('the file has changed');
    const reading = new Reading(opened);
    for await (const _ of reading.take(offset, () => undefined));
    return reading;
  }

  /** @param onChunk called before a chunk is given */
  async *take(bytes: number, onChunk: (chunk: Buffer) => void): AsyncGenerator<Buffer> {
    for (let left = bytes; left > 0;) {
      if (this.rest.length === 0) {
        const { value, done } = await this.chunks.next();
        if (done === true) throw new Error('the file has become shorter');
        if (Buffer.isBuffer(value)) this.rest = value;
      }
      const chunk = this.rest.subarray(0, left);
      this.rest = this.rest.subarray(chunk.length);
      left -= chunk.length;
      onChunk(chunk);
      yield chunk;
    }
  }

  close(): void {
    this.opened.content.destroy();
  }
}

/** @returns the entity tag; empty: none. @throws Error with the answer of the store, without the URL */
async function put(
  { method, url, headers }: SignedRequest,
  bytes: number,
  content: AsyncGenerator<Buffer>,
  stop: AbortSignal,
): Promise<string> {
  const silence = new Silence();
  const body = bytes === 0 ? Buffer.alloc(0) : Readable.from(silence.watch(content), { objectMode: false });
  const { request } = await import('undici');
  try {
    const answer = await request(url, {
      method: method === 'POST' ? 'POST' : 'PUT',
      headers: { 'user-agent': 'longshore-worker', ...inLowerCase(headers), 'content-length': String(bytes) },
      body,
      signal: AbortSignal.any([stop, silence.signal]),
      headersTimeout: 0,
      bodyTimeout: SILENCE_MS,
    });
    const { statusCode: status } = answer;
    if (status >= 200 && status < 300) {
      await answer.body.dump();
      return String(answer.headers.etag ?? '');
    }
    throw new Error(storeRefusal(status, await answer.body.text()));
  } finally {
    silence.end();
  }
}

/** A header that comes in two ways of writing would be sent twice. */
function inLowerCase(headers: SignedRequest['headers']): SignedRequest['headers'] {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** Ends an upload in which nothing moves for long. The system buffers some megabytes, which the store may take their time for. */
class Silence {
  private readonly controller = new AbortController();
  private timer: NodeJS.Timeout;
  readonly signal = this.controller.signal;

  constructor() {
    this.timer = this.start();
  }

  async *watch(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      clearTimeout(this.timer);
      this.timer = this.start();
      yield chunk;
    }
  }

  end(): void {
    clearTimeout(this.timer);
  }

  private start(): NodeJS.Timeout {
    const ms = 2 * SILENCE_MS;
    const late = (): void => this.controller.abort(new Error(`the store took nothing for ${ms / 1000} s`));
    return setTimeout(late, ms).unref();
  }
}
