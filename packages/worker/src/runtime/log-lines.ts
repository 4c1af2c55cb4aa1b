import type { Readable } from 'node:stream';
import { withTimeout } from '@longshore/common/timeout';
import type { LogLine } from './runtime.js';

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
 */
export async function* splitLines(
  chunks: AsyncIterable<OutputChunk<LogLine['stream']>>,
  partialMs = Infinity,
): AsyncGenerator<LogLine, void, undefined> {
  const buffers = {
    stdout: new LineBuffer('stdout', partialMs),
    stderr: new LineBuffer('stderr', partialMs),
  };
  const both = Object.values(buffers);
  for await (const chunk of withTimeouts(chunks, () => Math.min(...both.map(({ dueAt }) => dueAt)))) {
    if (chunk !== null) yield* buffers[chunk.stream].take(chunk.bytes);
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

  /** When the bytes that are held are handed on, in milliseconds of performance.now(); Infinity: not before more come. */
  dueAt = Infinity;

  constructor(
    private readonly stream: LogLine['stream'],
    private readonly partialMs: number,
  ) {}

  get isDue(): boolean {
    return this.dueAt !== Infinity && this.dueAt <= performance.now();
  }

  *take(bytes: Buffer): Generator<LogLine> {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      yield* this.finish(bytes.subarray(from, end));
      from = end + 1;
    }
    if (from === bytes.length) return;
    yield* this.hold(bytes.subarray(from));
    if (this.dueAt === Infinity && this.partialMs !== Infinity)
      this.dueAt = performance.now() + this.partialMs;
  }

  /** What is there of a line that is not finished. */
  *partial(): Generator<LogLine> {
    this.dueAt = Infinity;
    if (this.held === null) return;
    const end = this.length - openEnd(this.held.subarray(0, this.length));
    if (end > 0) yield this.handOn(this.held, end);
  }

  *last(): Generator<LogLine> {
    if (this.length > 0 || this.isBegun) yield* this.finish(Buffer.alloc(0));
  }

  private *finish(part: Buffer): Generator<LogLine> {
    const { stream } = this;
    if (this.length === 0 && !this.isBegun && part.length <= MAX_LINE_BYTES) {
      yield { stream, text: decode(part) };
      return;
    }
    yield* this.hold(part);
    const text = decode((this.held ?? part).subarray(0, this.length));
    yield this.isBegun ? { stream, text, part: 'end' } : { stream, text };
    this.length = 0;
    this.isBegun = false;
    this.dueAt = Infinity;
  }

  /** Buffers bytes, and yields a part when the buffer is full. */
  private *hold(bytes: Buffer): Generator<LogLine> {
    const held = (this.held ??= Buffer.allocUnsafeSlow(MAX_LINE_BYTES));
    for (let from = 0; from < bytes.length;) {
      if (this.length === MAX_LINE_BYTES) yield this.handOn(held, MAX_LINE_BYTES - openEnd(held));
      const copied = bytes.copy(held, this.length, from);
      this.length += copied;
      from += copied;
    }
  }

  private handOn(held: Buffer, end: number): LogLine {
    const { stream } = this;
    const text = held.toString('utf8', 0, end);
    held.copyWithin(0, end, this.length);
    this.length -= end;
    const part = this.isBegun ? 'rest' : 'start';
    this.isBegun = true;
    return { stream, text, part };
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
