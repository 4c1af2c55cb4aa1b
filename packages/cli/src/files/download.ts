import { createHash, hash } from 'node:crypto';
import { constants, createReadStream } from 'node:fs';
import { lstat, mkdir, open, rename, rm, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Schemas } from '@longshore/client';
import { Backoff } from '@longshore/common/backoff';
import { errorCode, errorText } from '@longshore/common/errors';
import { CliError, EXIT, failureText } from '../cli-error.js';
import { RETRY, type Session } from '../service/session.js';
import { TransferLine } from './transfer-line.js';

/** Requests in a row that bring nothing. */
const TRIES = 5;

type Artifact = Pick<Schemas['Artifact'], 'name' | 'bytes' | 'sha256' | 'attempt'>;

/**
 * Fetches an artifact into a folder, where a part of it that an earlier command has fetched is continued.
 * @returns the path of the file @throws CliError; what is there of it stays for the next time, unless its checksum is wrong
 */
export async function download(
  session: Session,
  run: string,
  artifact: Artifact,
  folder: string,
): Promise<string> {
  const { name, sha256 } = artifact;
  const target = await placeOf(folder, name);
  const bytes = artifact.bytes ?? 0;
  if (sha256 !== null && (await hasContent(target, bytes, sha256))) return target;
  const id = hash('sha256', JSON.stringify([run, name, artifact.attempt, bytes, sha256]));
  const part = join(dirname(target), `.longshore-${id.slice(0, 32)}.part`);
  const { O_RDWR, O_CREAT, O_APPEND, O_NOFOLLOW } = constants;
  // What Windows does not have is undefined there.
  const flags = O_RDWR | O_CREAT | O_APPEND | (O_NOFOLLOW ?? 0);
  const file = await open(part, flags).catch((error: unknown) => {
    throw cannotWrite(part, error);
  });
  const line = new TransferLine(session.output.live, 'FETCHING', name, bytes);
  try {
    const arriving = new Arriving(file, part, bytes, line);
    await arriving.readBegun();
    await fetchRest(session, run, name, arriving);
    if (sha256 !== null && arriving.sum() !== sha256) {
      await rm(part);
      throw new CliError(EXIT.failed, `${name} has arrived with another checksum than ${sha256}`);
    }
  } finally {
    line.end();
    await file.close();
  }
  await rename(part, target).catch((error: unknown) => {
    throw cannotWrite(target, error);
  });
  return target;
}

/** Fetches what is missing, with a new URL for each request. @throws CliError */
async function fetchRest(session: Session, run: string, name: string, arriving: Arriving): Promise<void> {
  const backoff = new Backoff(RETRY);
  const params = { path: { id: run, name }, query: { redirect: false } };
  while (!arriving.isComplete) {
    const { url } = await session.ask((init) =>
      session.client.GET('/runs/{id}/artifacts/{name}', { params, ...init }),
    );
    const before = arriving.moved;
    try {
      await arriving.receive(await fetch(url, { ...arriving.request, signal: session.stop }));
    } catch (error) {
      session.throwIfStopped();
      if (error instanceof CliError) throw error;
      if (arriving.moved > before) backoff.reset();
      if (backoff.failures === TRIES - 1)
        throw new CliError(EXIT.failed, `cannot fetch ${name}: ${failureText(error)}`);
      await session.pause(backoff.nextMs());
    }
  }
}

/** A file that arrives, in as many pieces as it takes. */
class Arriving {
  moved = 0;
  private hash = createHash('sha256');

  constructor(
    private readonly file: FileHandle,
    private readonly path: string,
    private readonly bytes: number,
    private readonly line: TransferLine,
  ) {}

  get isComplete(): boolean {
    return this.moved === this.bytes;
  }

  /** How the next request asks for what is missing. */
  get request() {
    const headers = new Headers({ 'Accept-Encoding': 'identity' });
    if (this.moved > 0) headers.set('Range', `bytes=${this.moved}-`);
    return { headers, redirect: 'error' } as const;
  }

  sum(): string {
    return this.hash.copy().digest('hex');
  }

  /** Reads what an earlier command has fetched. */
  async readBegun(): Promise<void> {
    for await (const chunk of createReadStream(this.path)) if (Buffer.isBuffer(chunk)) this.count(chunk);
    if (this.moved > this.bytes) await this.restart();
  }

  /** @throws Error when it is no success, or ends before its time */
  async receive(response: Response): Promise<void> {
    const { status, body } = response;
    const isRest =
      status === 206 && response.headers.get('Content-Range')?.startsWith(`bytes ${this.moved}-`) === true;
    // All of it, or it has no such range.
    if (status === 200 || status === 416) await this.restart();
    if (body === null || (status !== 200 && !isRest)) {
      await body?.cancel();
      throw new Error(`the store answers HTTP ${status}`);
    }
    for await (const chunk of body) {
      if (this.moved + chunk.length > this.bytes) throw new Error('the store gives more than it should');
      await this.file.writeFile(chunk).catch((error: unknown) => {
        throw cannotWrite(this.path, error);
      });
      this.count(chunk);
    }
    if (!this.isComplete) throw new Error(`the store gives ${this.moved} of ${this.bytes} bytes`);
  }

  private count(chunk: Uint8Array): void {
    this.hash.update(chunk);
    this.moved += chunk.length;
    this.line.moved(this.moved);
  }

  private async restart(): Promise<void> {
    await this.file.truncate();
    this.moved = 0;
    this.hash = createHash('sha256');
  }
}

/** Where an artifact is put, with the folders on the way. @throws CliError for a name or a link that leads elsewhere */
async function placeOf(folder: string, name: string): Promise<string> {
  const parts = name.split('/');
  // A part with a drive or a backslash is another name for Windows.
  if (parts.some((part) => ['', '.', '..'].includes(part) || part.includes('\0') || basename(part) !== part))
    throw new CliError(EXIT.failed, `${JSON.stringify(name)} is no name of a file here`);
  try {
    await mkdir(folder, { recursive: true });
    let at = folder;
    for (const part of parts.slice(0, -1)) {
      at = join(at, part);
      await mkdir(at).catch((error: unknown) => {
        if (errorCode(error) !== 'EEXIST') throw error;
      });
      if (!(await lstat(at)).isDirectory())
        throw new CliError(EXIT.failed, `${at} is there and no folder; links are not followed`);
    }
    return join(at, parts.at(-1) ?? '');
  } catch (error) {
    throw error instanceof CliError ? error : cannotWrite(folder, error);
  }
}

async function hasContent(path: string, bytes: number, sha256: string): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (found?.isFile() !== true || found.size !== bytes) return false;
  const sum = createHash('sha256');
  for await (const chunk of createReadStream(path)) if (Buffer.isBuffer(chunk)) sum.update(chunk);
  return sum.digest('hex') === sha256;
}

function cannotWrite(path: string, error: unknown): CliError {
  return new CliError(EXIT.failed, `cannot write ${path}: ${errorText(error)}`);
}
