import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import type { Schemas } from '@longshore/client';
import { Backoff } from '@longshore/common/backoff';
import { storeRefusal } from '@longshore/common/store-answer';
import { CliError, EXIT, failureText } from '../cli-error.js';
import { RETRY, type Session } from '../service/session.js';
import { size } from '../terminal/table.js';
import type { LocalSource } from './local-source.js';
import { TransferLine } from './transfer-line.js';

/** Tries of each request that sends bytes. */
const TRIES = 5;
/** More than this is worth a warning. */
const MANY_BYTES = 200_000_000;

type Piece = Pick<Schemas['FilePart'], 'method' | 'url' | 'headers' | 'bytes'>;

/** Sends a file, unless the service has it from the same key. @returns its id @throws CliError */
export async function uploadFile(session: Session, source: LocalSource): Promise<string> {
  const { client, output } = session;
  const { said, name, bytes, sha256, entries } = source;
  const body = { name, bytes, sha256, ...(entries && { content_type: 'application/gzip' }) };
  const made = await session.ask((init) => client.POST('/files', { body, ...init }));
  const files = entries?.filter(({ type }) => type === 'file').length;
  const what = `${said}: ${files === undefined ? '' : `${files} ${files === 1 ? 'file' : 'files'}, `}${size(bytes)}`;
  if (!('upload' in made)) {
    output.note(`${what}, which the service has`);
    return made.id;
  }
  output.note(`sending ${what}`);
  if (bytes > MANY_BYTES)
    output.note(`longshore: warning: ${said} is large: a volume or a store may hold it for all runs`);
  const line = new TransferLine(output.live, 'SENDING', said, bytes);
  const sending = new Sending(session, source, made.id, line);
  try {
    const { id } = made;
    if ('parts' in made.upload) {
      const etags: string[] = [];
      for (const part of made.upload.parts) etags.push(await sending.send(part));
      const path = { id };
      await session.ask((init) =>
        client.POST('/files/{id}/complete', { params: { path }, body: { etags }, ...init }),
      );
    } else await sending.send({ ...made.upload, bytes });
    if (!(await sending.isStored()))
      throw new CliError(EXIT.failed, `the service has not got all of ${said}`);
    return id;
  } finally {
    line.end();
  }
}

/** One file on its way, in pieces that follow each other. */
class Sending {
  private sent = 0;

  constructor(
    private readonly session: Session,
    private readonly source: LocalSource,
    private readonly id: string,
    private readonly line: TransferLine,
  ) {}

  async isStored(): Promise<boolean> {
    const { client } = this.session;
    const params = { path: { id: this.id } };
    return (
      (await this.session.ask((init) => client.GET('/files/{id}', { params, ...init }))).state === 'stored'
    );
  }

  /** @returns the entity tag that the store gave; empty: none, or its answer was lost */
  async send(piece: Piece): Promise<string> {
    const { session, source } = this;
    const backoff = new Backoff(RETRY);
    for (let tries = 1; ; tries += 1) {
      const tried = await this.trySend(piece);
      if (typeof tried === 'string') {
        this.sent += piece.bytes;
        return tried;
      }
      // The bytes may have arrived although the answer did not.
      if (await this.isStored()) return '';
      if (tries === TRIES || !tried.mayPass)
        throw new CliError(EXIT.failed, `cannot send ${source.said}: ${tried.reason}`);
      await session.pause(backoff.nextMs());
    }
  }

  private async trySend({ method, url, headers, bytes }: Piece) {
    const { session } = this;
    const all = new Headers(headers);
    all.set('Content-Length', String(bytes));
    try {
      const response = await fetch(url, {
        method,
        headers: all,
        body: bytes === 0 ? '' : Readable.from(this.read(bytes), { objectMode: false }),
        duplex: 'half',
        redirect: 'error',
        signal: session.stop,
      });
      const text = await response.text();
      if (response.ok) return response.headers.get('ETag') ?? '';
      const reason = storeRefusal(response.status, text);
      return { reason, mayPass: response.status >= 500 || [408, 429].includes(response.status) };
    } catch (error) {
      session.throwIfStopped();
      return { reason: failureText(error), mayPass: true };
    }
  }

  private async *read(bytes: number): AsyncGenerator<Buffer> {
    const range = { start: this.sent, end: this.sent + bytes - 1 };
    let moved = this.sent;
    for await (const chunk of createReadStream(this.source.path, range)) {
      if (!Buffer.isBuffer(chunk)) continue;
      moved += chunk.length;
      this.line.moved(moved);
      yield chunk;
    }
  }
}
