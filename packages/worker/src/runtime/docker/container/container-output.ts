import { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Readable } from 'node:stream';
import { withTimeout } from '@longshore/common/timeout';
import type Dockerode from 'dockerode';
import { engineMessage, engineStatus, withLimit } from '../engine/docker-engine.js';
import type { ContainerTiming } from './docker.container.js';
import { demultiplex, logEntries, type LogEntry } from './log-frames.js';
import { PARTIAL_MS, splitLines, readChunks, type OutputChunk } from '../../log-lines.js';
import { NOTHING_READ, type LogLine, type OutputCursors, type RuntimeLog } from '../../runtime.js';
import { OutputBeginnings, type OutputCursor } from './output-cursor.js';
import { ReadAhead } from './read-ahead.js';

type Stream = LogLine['stream'];
type Chunk = OutputChunk<Stream>;

/** Bytes of the beginning of each stream by which it is recognized in the engine's log. */
const BEGINNING_BYTES = 4096;

/** Time after which reading continues at a newer entry of the log, in milliseconds. */
const CHECKPOINT_MS = 10_000;

/** By less than this, entries of a log may be out of order, in milliseconds. */
const DISORDER_MS = 1000;

/** Time within which the engine tells of the end of a container after that of its output, in milliseconds. */
const ENDS_SOON_MS = 2000;

/** How often the rest of an ended container's log is requested. */
const REST_TRIES = 5;

const LINE_FEED = 0x0a;

/** Begins each line that stands in the log where lines may be missing. */
export const MAY_BE_MISSING = '[worker] lines may be missing here: ';

/** The engine's log does not continue what was read. */
export const GAP_LINE = `${MAY_BE_MISSING}the connection to the container engine broke, and its log does not go back far enough`;

/** The engine lost what was on its way to it when it ended. */
export const RESTART_LINE = `${MAY_BE_MISSING}the container engine was restarted before the container ended`;

/** The engine may have dropped what its reader was too slow for, from its log, too. */
export const SLOW_LINE =
  `${MAY_BE_MISSING}when a container has ended, the container engine waits two seconds for the reader of its output, ` +
  'which was slower: the worker or the engine had no turn of the processor, or the log was stored too slowly';

/** The end of a container. */
export interface ContainerEnd {
  /**
   * When the request began by which the engine told the end, in milliseconds of performance.now(); Infinity when it broke or
   * the engine was away.
   */
  readonly toldSince: number;
  /** Whether the engine may have been restarted since the container was started. */
  readonly isAfterRestart: boolean;
  /** Whether the engine may have dropped the end of the output. */
  readonly mayLackOutput: boolean;
}

export interface OutputOptions {
  /** Attached before the start; null: an earlier process has begun to read. */
  readonly attached: Readable | null;
  /** Where that one ended; null: at the beginning. */
  readonly earlier: OutputCursor | null;
  /** Whether the engine keeps a log of the container, which can be read. */
  readonly hasLog: boolean;
  readonly timing: ContainerTiming;
  readonly log: RuntimeLog;
}

/** Attaches to both output streams of a container. */
export async function attachOutput(container: Dockerode.Container, limitMs: number): Promise<Readable> {
  const stream = await withLimit(limitMs, 'attach', (abortSignal) =>
    container.attach({ stream: true, stdout: true, stderr: true, abortSignal }),
  );
  return asReadable(stream);
}

/**
 * The output of a container. It is read from the attached connection, ahead of the consumer up to a limit (`ReadAhead`), which
 * slows the container down to the pace of the consumer.
 * When this connection breaks, the rest is read from the engine's log, if it has one, without repeating what was read. After an
 * earlier process, all of it is.
 */
export class ContainerOutput {
  /** Bytes that were read of each stream since `checkpoint`. */
  private seen: Record<Stream, number> = { stdout: 0, stderr: 0 };
  private readonly beginning: Record<Stream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
  /** An entry of the engine's log; null: its beginning. */
  private checkpoint: Pick<LogEntry, 'stream' | 'time'> | null = null;
  private brokeAtMs = 0;
  /** Whether the last byte of stderr was no line end. */
  private isInLine = false;
  private current: Readable | null;
  private readonly beginnings: OutputBeginnings;
  /** Chunks of streams of which too little is here to tell whether the log begins with their beginnings. */
  private pending: Chunk[] = [];
  /** Whether the log lacks the beginning that an earlier process has read. */
  private isForeign = false;
  /** What stands behind the last line. */
  private endLines: readonly string[] = [];

  constructor(
    private readonly container: Dockerode.Container,
    /** Settles when the container has ended. */
    private readonly end: Promise<ContainerEnd>,
    private readonly options: OutputOptions,
  ) {
    this.current = options.attached;
    this.beginnings = new OutputBeginnings(options.earlier);
  }

  async *lines(): AsyncGenerator<LogLine, void, undefined> {
    yield* splitLines(this.chunks(), PARTIAL_MS, this.options.earlier?.ends ?? NOTHING_READ);
    for (const text of this.endLines) yield { stream: 'stderr', text };
  }

  get cursors(): OutputCursors {
    return this.beginnings;
  }

  close(): void {
    this.current?.destroy();
  }

  private async *chunks(): AsyncGenerator<Chunk, void, undefined> {
    yield* this.read();
    yield* this.pending;
  }

  private async *read(): AsyncGenerator<Chunk, void, undefined> {
    const { timing, hasLog, log, earlier } = this.options;
    let pauseMs = timing.retryMs;
    let isWhole: Promise<boolean> | false = false;
    if (this.current === null) {
      this.brokeAtMs = earlier?.atMs ?? 0;
    } else {
      const ahead = new ReadAhead(this.current);
      try {
        for await (const chunk of demultiplex(this.bytes(ahead.output))) {
          this.count(chunk);
          yield this.noted(chunk);
        }
      } catch (error) {
        this.warn(error);
      }
      this.brokeAtMs = Date.now();
      isWhole = this.isWhole() && this.hasEndedWith(ahead.endedAt);
    }
    let hasEnded = await settlesWithin(this.end, pauseMs);
    if (!hasLog) await this.end.catch(() => undefined);
    if ((hasEnded || !hasLog) && (await isWhole)) {
      this.endLines = await this.notesOfEnd();
      return;
    }
    if (!hasLog) {
      yield this.note(GAP_LINE);
      return;
    }
    if (this.current !== null)
      log.warn(
        { container: this.container.id },
        'the output of a container may lack its end, reading from its log',
      );
    for (let tries = 0; tries < REST_TRIES;) {
      try {
        const isFound = yield* this.fromLog();
        if (hasEnded && this.isWhole()) {
          if (!isFound) yield this.note(GAP_LINE);
          this.endLines = await this.notesOfEnd();
          return;
        }
      } catch (error) {
        this.warn(error);
        if (hasEnded && engineStatus(error) === 404) break;
      }
      if (hasEnded) tries += 1;
      hasEnded = await settlesWithin(this.end, pauseMs);
      if (hasEnded) await sleep(pauseMs);
      pauseMs = Math.min(pauseMs * 2, timing.retryMs * 16);
    }
    if (!(await isWhole)) yield this.note(GAP_LINE);
  }

  /**
   * Whether the attached connection, which ended at this time, ended with the container. HTTP does not tell: the connection has
   * no length, so one that something in between closes looks like one that the engine ends. The request for the end of the
   * container would have broken with it.
   */
  private async hasEndedWith(endedAt: number): Promise<boolean> {
    if (!(await settlesWithin(this.end, ENDS_SOON_MS))) return false;
    const { toldSince } = await this.end.catch(() => ({ toldSince: Infinity }));
    return toldSince < endedAt;
  }

  /** What the end of the container tells of its output. */
  private async notesOfEnd(): Promise<string[]> {
    const unknown = { isAfterRestart: true, mayLackOutput: false };
    const { isAfterRestart, mayLackOutput } = await this.end.catch(() => unknown);
    return [...(isAfterRestart ? [RESTART_LINE] : []), ...(mayLackOutput ? [SLOW_LINE] : [])];
  }

  /**
   * What the engine's log has after the bytes that were read.
   * @returns whether it has what was read before
   */
  private async *fromLog(): AsyncGenerator<Chunk, boolean, undefined> {
    const { checkpoint } = this;
    const { log } = this.options;
    const since =
      checkpoint === null ? {} : { since: String(Math.floor(Date.parse(checkpoint.time) / 1000) - 1) };
    const follow = { follow: true, stdout: true, stderr: true, timestamps: true, ...since } as const;
    const stream = await withLimit(this.options.timing.callMs, 'logs', (abortSignal) =>
      this.container.logs({ ...follow, abortSignal }),
    );
    const current = asReadable(stream);
    this.current = current;
    const skip = { ...this.seen };
    const compared = { stdout: 0, stderr: 0 };
    let isFound = checkpoint === null;
    let isLost = false;
    for await (const entry of logEntries(this.bytes(current))) {
      const { time, stream: name, bytes } = entry;
      if (!isFound && checkpoint !== null) {
        isFound = time === checkpoint.time && name === checkpoint.stream;
        if (!isFound && Date.parse(time) - Date.parse(checkpoint.time) < DISORDER_MS) continue;
      }
      // The engine keeps the newest files of a log only.
      const from = compared[name];
      const known = this.beginning[name].subarray(from, from + bytes.length);
      const isOther = checkpoint === null && !bytes.subarray(0, known.length).equals(known);
      compared[name] += bytes.length;
      const skipped = isLost ? 0 : Math.min(skip[name], bytes.length);
      const chunk = { stream: name, bytes: bytes.subarray(skipped) };
      this.beginnings.add(name, chunk.bytes);
      const isForeign = !this.isForeign && this.beginnings.isKnown(name) === false;
      if (!isLost && (!isFound || isOther || isForeign)) {
        isLost = true;
        isFound = true;
        log.warn({ container: this.container.id }, 'the log of a container does not go back far enough');
        if (isForeign) yield* this.goOnWithout();
        yield this.note(GAP_LINE);
        skip.stdout = skip.stderr = 0;
      }
      if (isLost) {
        if (Date.parse(time) < this.brokeAtMs) continue;
        this.advance(entry, 0, skip);
        yield this.noted({ stream: name, bytes });
        continue;
      }
      skip[name] -= skipped;
      if (skipped === bytes.length) continue;
      this.advance(entry, skipped, skip);
      yield* this.recognized(chunk);
    }
    return isFound;
  }

  /** What an earlier process has read is counted, although the log does not have it. */
  private *goOnWithout(): Generator<Chunk> {
    this.isForeign = true;
    this.pending = [];
    const { stdout, stderr } = this.options.earlier?.ends ?? NOTHING_READ;
    yield { stream: 'stdout', bytes: Buffer.alloc(0), at: stdout };
    yield { stream: 'stderr', bytes: Buffer.alloc(0), at: stderr };
  }

  /** The chunk, once its stream is known to begin as it did for the earlier process. */
  private *recognized(chunk: Chunk): Generator<Chunk> {
    if (!this.isForeign && this.beginnings.isKnown(chunk.stream) === null) {
      this.pending.push(chunk);
      return;
    }
    const isOfStream = ({ stream }: Chunk): boolean => stream === chunk.stream;
    const before = this.pending.filter(isOfStream);
    if (before.length > 0) this.pending = this.pending.filter((one) => !isOfStream(one));
    for (const one of [...before, chunk]) yield this.noted(one);
  }

  /**
   * Counts an entry of the log, from a newer checkpoint on if the last one is old.
   * @param ahead bytes of later entries that were read before: the attached connection has another order of the streams
   */
  private advance(entry: LogEntry, skipped: number, ahead: Readonly<Record<Stream, number>>): void {
    const { stream, time, bytes } = entry;
    const { checkpoint } = this;
    const isOld = checkpoint === null || Date.parse(time) - Date.parse(checkpoint.time) > CHECKPOINT_MS;
    if (isOld) {
      this.checkpoint = { stream, time };
      this.seen = { ...ahead };
      this.seen[stream] += bytes.length;
    } else {
      this.seen[stream] += bytes.length - skipped;
    }
  }

  private count({ stream, bytes }: Chunk): void {
    this.seen[stream] += bytes.length;
    this.beginnings.add(stream, bytes);
    const known = this.beginning[stream];
    if (known.length < BEGINNING_BYTES)
      this.beginning[stream] = Buffer.concat([known, bytes.subarray(0, BEGINNING_BYTES - known.length)]);
  }

  private noted(chunk: Chunk): Chunk {
    if (chunk.stream === 'stderr' && chunk.bytes.length > 0) this.isInLine = chunk.bytes.at(-1) !== LINE_FEED;
    return chunk;
  }

  private note(line: string): Chunk {
    const bytes = Buffer.from(`${this.isInLine ? '\n' : ''}${line}\n`);
    return this.noted({ stream: 'stderr', bytes, isNote: true });
  }

  private bytes(readable: Readable): AsyncIterable<{ readonly bytes: Buffer }> {
    return readChunks([{ stream: 'output', readable }], this.end);
  }

  /** Whether the answer came to its end, as far as HTTP tells. */
  private isWhole(): boolean {
    return this.current instanceof IncomingMessage && this.current.complete;
  }

  private warn(error: unknown): void {
    this.options.log.warn(
      { container: this.container.id, error: engineMessage(error) },
      'output of a container not readable',
    );
  }
}

function asReadable(stream: unknown): Readable {
  // Without hijacking, the library returns the response: a Readable that ends with the container.
  if (!(stream instanceof Readable)) throw new Error('the container engine gave no output stream');
  return stream;
}

/** Whether a promise settles in time. */
export function settlesWithin(promise: Promise<unknown>, limitMs: number): Promise<boolean> {
  const settled = promise.then(
    () => true,
    () => true,
  );
  return withTimeout(limitMs, settled, false);
}
