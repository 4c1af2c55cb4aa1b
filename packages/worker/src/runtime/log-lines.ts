import type { Readable } from 'node:stream';
import { withTimeout } from '@longshore/common/timeout';
import type { LogLine, OutputEnds } from './runtime.js';

/** After this time, the containers of a machine show what is there of a line, in milliseconds. */
export const PARTIAL_MS = 1_000;

/** Longer lines are split into parts, in bytes. */
export const MAX_LINE_BYTES = 64 * 1024;

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Longest UTF-8 character, in bytes. */
const MAX_CHARACTER = 4;

/**
 * Makes lines of the bytes of both streams, each stream on its own. A line ends with LF or CR LF; an unfinished last
 * line counts. Invalid UTF-8 becomes U+FFFD. At most `MAX_LINE_BYTES` per stream are held, whatever arrives: a longer
 * line is handed on in parts, cut between characters.
 * @param partialMs after so many milliseconds an unfinished line is handed on in parts, too. Leave it out where the same output may
 * be read again: the parts depend on the time
 * @param cuts count of bytes of each stream at which a line is cut in any case: an earlier process may have handed on what is before.
 * Null: the bytes of lines are not counted
 */
export async function* splitLines(
  chunks: AsyncIterable<OutputChunk<LogLine['stream']>>,
  partialMs = Infinity,
  cuts: OutputEnds | null = null,
): AsyncGenerator<LogLine, void, undefined> {
  const buffers = {
    stdout: new LineBuffer('stdout', partialMs, cuts),
    stderr: new LineBuffer('stderr', partialMs, cuts),
  };
  const both = Object.values(buffers);
  for await (const chunk of withTimeouts(chunks, () => Math.min(...both.map(({ dueAt }) => dueAt)))) {
    if (chunk !== null) yield* buffers[chunk.stream].take(chunk);
    for (const buffer of both) if (buffer.isDue) yield* buffer.partial();
  }
  for (const buffer of both) yield* buffer.last();
}

/**
 * The items, and null when none has come before a point in time.
 * @param dueAt of performance.now(); Infinity: there is no such point
 */
async function* withTimeouts<T>(
  items: AsyncIterable<T>,
  dueAt: () => number,
): AsyncGenerator<T | null, void, undefined> {
  const iterator = items[Symbol.asyncIterator]();
  let next: Promise<IteratorResult<T>> | null = null;
  try {
    for (;;) {
      next ??= iterator.next();
      const due = dueAt();
      const result =
        due === Infinity ? await next : await withTimeout(Math.max(0, due - performance.now()), next, null);
      if (result === null) {
        yield null;
        continue;
      }
      next = null;
      if (result.done === true) return;
      yield result.value;
    }
  } finally {
    // With a request on its way, it takes effect after that one.
    next?.catch(() => undefined);
    iterator.return?.().catch(() => undefined);
  }
}

class LineBuffer {
  private held: Buffer | null = null;
  private length = 0;
  /** Whether a part of the line is handed on. */
  private isBegun = false;
  /** Bytes of the stream before the line. */
  private lineAt = 0;
  /** Bytes of the stream so far, those that are held among them. */
  private count = 0;
  private readonly cutAt: number;

  /** When the bytes that are held are handed on, in milliseconds of performance.now(); Infinity: not before more come. */
  dueAt = Infinity;

  constructor(
    private readonly stream: LogLine['stream'],
    private readonly partialMs: number,
    private readonly cuts: OutputEnds | null,
  ) {
    this.cutAt = cuts?.[stream] ?? 0;
  }

  get isDue(): boolean {
    return this.dueAt !== Infinity && this.dueAt <= performance.now();
  }

  *take({ bytes, at, isNote = false }: OutputChunk<unknown>): Generator<LogLine> {
    if (at !== undefined) this.moveTo(at);
    const left = this.cutAt - this.count;
    if (isNote || left <= 0 || left > bytes.length) {
      yield* this.split(bytes, isNote ? 0 : 1);
      return;
    }
    yield* this.split(bytes.subarray(0, left), 1);
    if (this.held !== null && this.length > 0) yield this.handOn(this.held, this.length, 0);
    yield* this.split(bytes.subarray(left), 1);
  }

  /** What is there of a line that is not finished. */
  *partial(): Generator<LogLine> {
    this.dueAt = Infinity;
    if (this.held === null) return;
    const end = this.length - openEnd(this.held.subarray(0, this.length));
    if (end > 0) yield this.handOn(this.held, end, 0);
  }

  *last(): Generator<LogLine> {
    if (this.length > 0 || this.isBegun) yield* this.finish(Buffer.alloc(0));
  }

  private moveTo(count: number): void {
    this.count = count;
    if (this.length === 0 && !this.isBegun) this.lineAt = count;
  }

  /** @param counted of each byte: 1, or 0 for those that are not of the stream */
  private *split(bytes: Buffer, counted: 0 | 1): Generator<LogLine> {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      this.count += counted * (end + 1 - from);
      yield* this.finish(bytes.subarray(from, end), counted === 0 && end > from);
      from = end + 1;
    }
    if (from === bytes.length) return;
    this.count += counted * (bytes.length - from);
    yield* this.hold(bytes.subarray(from), 0);
    if (this.dueAt === Infinity && this.partialMs !== Infinity)
      this.dueAt = performance.now() + this.partialMs;
  }

  /** @param isNote whether it is a line of the worker's own, which has no place in the stream */
  private *finish(part: Buffer, isNote = false): Generator<LogLine> {
    if (this.length === 0 && !this.isBegun && part.length <= MAX_LINE_BYTES) {
      const { lineAt, stream } = this;
      this.lineAt = this.count;
      const text = decode(part);
      yield isNote ? { stream, text } : this.lineOf(text, undefined, lineAt, this.count);
      return;
    }
    yield* this.hold(part, 1);
    const text = decode((this.held ?? part).subarray(0, this.length));
    const line = this.lineOf(text, this.isBegun ? 'end' : undefined, this.lineAt, this.count);
    this.length = 0;
    this.isBegun = false;
    this.dueAt = Infinity;
    this.lineAt = this.count;
    yield line;
  }

  /** Buffers bytes, and yields a part when the buffer is full. @param after bytes that follow them and are counted already */
  private *hold(bytes: Buffer, after: number): Generator<LogLine> {
    const held = (this.held ??= Buffer.allocUnsafeSlow(MAX_LINE_BYTES));
    for (let from = 0; from < bytes.length;) {
      if (this.length === MAX_LINE_BYTES)
        yield this.handOn(held, MAX_LINE_BYTES - openEnd(held), bytes.length - from + after);
      const copied = bytes.copy(held, this.length, from);
      this.length += copied;
      from += copied;
    }
  }

  /** @param after bytes behind those that are held, counted already */
  private handOn(held: Buffer, end: number, after: number): LogLine {
    const text = held.toString('utf8', 0, end);
    held.copyWithin(0, end, this.length);
    this.length -= end;
    const part = this.isBegun ? 'rest' : 'start';
    this.isBegun = true;
    return this.lineOf(text, part, this.lineAt, this.count - this.length - after);
  }

  private lineOf(text: string, part: LogLine['part'], line: number, end: number): LogLine {
    const { stream, cuts } = this;
    const named = part === undefined ? { stream, text } : { stream, text, part };
    return cuts === null ? named : { ...named, bytes: { line, end } };
  }
}

function decode(bytes: Buffer): string {
  const end = bytes.at(-1) === CARRIAGE_RETURN ? bytes.length - 1 : bytes.length;
  return bytes.toString('utf8', 0, end);
}

/** How many bytes at the end begin a UTF-8 character whose rest is not there, or may be a part of the line end. */
function openEnd(bytes: Buffer): number {
  if (bytes.at(-1) === CARRIAGE_RETURN) return 1;
  for (let back = 1; back < MAX_CHARACTER; back++) {
    const byte = bytes.at(-back) ?? 0;
    const isContinuation = (byte & 0xc0) === 0x80;
    if (isContinuation) continue;
    const characterLength = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return characterLength > back ? back : 0;
  }
  return 0;
}

export interface OutputChunk<S> {
  readonly stream: S;
  readonly bytes: Buffer;
  /** How many bytes of the stream are before them; absent: those of the chunks before. */
  readonly at?: number;
  /** Whether they are the worker's own words, and do not count. */
  readonly isNote?: boolean;
}

interface OutputSource<S> {
  readonly stream: S;
  readonly readable: Readable;
}

/** How long a stream may stay open and silent after the end of its program, in milliseconds. */
const QUIET_AFTER_END_MS = 5_000;

/**
 * Reads several byte streams in order of arrival, pulling only when the consumer asks: between two reads no more than
 * the streams' own high-water marks is in memory. It ends when all streams have ended, or when `ended` has settled and
 * nothing arrived for `quietMs` (another process still holds the other end). A broken stream counts as ended. A consumer
 * that leaves early does not block the program: what it still prints is discarded.
 */
export async function* readChunks<S>(
  sources: readonly OutputSource<S>[],
  ended: Promise<unknown>,
  quietMs = QUIET_AFTER_END_MS,
): AsyncGenerator<OutputChunk<S>, void, undefined> {
  let wake: (() => void) | null = null;
  const onChange = () => wake?.();
  let hasEnded = false;
  const onEnded = () => {
    hasEnded = true;
    wake?.();
  };
  ended.then(onEnded, onEnded);
  for (const { readable } of sources) {
    for (const event of ['readable', 'end', 'close', 'error']) readable.on(event, onChange);
  }
  try {
    for (;;) {
      let arrived = false;
      for (const { stream, readable } of sources) {
        const bytes: unknown = readable.read();
        if (!Buffer.isBuffer(bytes)) continue;
        arrived = true;
        yield { stream, bytes };
      }
      if (arrived) continue;
      if (sources.every(({ readable }) => isOver(readable))) return;
      const quiet = await new Promise<boolean>((resolve) => {
        const timer = hasEnded ? setTimeout(() => resolve(true), quietMs) : undefined;
        wake = () => {
          clearTimeout(timer);
          resolve(false);
        };
      });
      if (quiet) return;
    }
  } finally {
    for (const { readable } of sources) {
      for (const event of ['readable', 'end', 'close']) readable.off(event, onChange);
      discard(readable, hasEnded, ended);
    }
  }
}

function isOver(readable: Readable): boolean {
  return readable.readableEnded || readable.destroyed || readable.errored !== null;
}

function discard(readable: Readable, hasEnded: boolean, ended: Promise<unknown>): void {
  if (isOver(readable)) return;
  const destroy = () => void readable.destroy();
  if (hasEnded) {
    destroy();
  } else {
    readable.resume();
    ended.then(destroy, destroy);
  }
}
