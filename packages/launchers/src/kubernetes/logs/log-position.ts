/** Log files of old nodes hold long lines in pieces of this size, in bytes, and give each piece a time. */
const PIECE_BYTES = 16 * 1024;

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** Longest time with its space, in bytes. */
const LONGEST_TIME = 40;

const LINE_FEED = Buffer.from('\n');
const SPACE = 0x20;

/**
 * `time`: reads the time at the beginning of a line. `text`: hands on the line. `joint`: between two pieces of a line, where
 * there may be a time. `skip`: drops the rest of the line.
 */
type Mode = 'time' | 'text' | 'joint' | 'skip';

/**
 * Follows the log of a container through several connections, so that every line is handed on once. A connection reads from
 * the second of the last line on (the API server knows no fractions); the lines of that second that are known by their
 * times are dropped, and of an unfinished line the beginning is. Lines without a time are not the container's: nodes put
 * errors into the log.
 */
export class LogPosition {
  private mode: Mode = 'time';
  /** Bytes of a time that is not complete. */
  private held: Buffer = Buffer.alloc(0);
  /** The newest second, since 1970; null: no line yet. */
  private second: number | null = null;
  /** How many lines of that second have the time. */
  private seen = new Map<string, number>();
  /** Of these, which the connection still has to repeat. */
  private repeated = new Map<string, number>();
  /** The line that is not complete; null: none. */
  private open: { readonly time: string; bytes: number } | null = null;
  /** Bytes of the line that the connection repeats. */
  private known = 0;
  /** Bytes of the line that the connection has given. */
  private given = 0;

  /** Where the next connection reads from; undefined: from the beginning. */
  get since(): string | undefined {
    return this.second === null
      ? undefined
      : new Date(this.second * 1000).toISOString().replace('.000Z', 'Z');
  }

  /** A new connection begins. */
  reconnect(): void {
    this.mode = 'time';
    this.held = Buffer.alloc(0);
    this.repeated = new Map(this.seen);
  }

  /** The new part of the log in the bytes of the connection, without times. */
  *take(chunk: Buffer): Generator<Buffer, void, undefined> {
    let rest = chunk;
    while (rest.length > 0) {
      const used = yield* this.step(rest);
      rest = rest.subarray(used);
    }
  }

  /** @returns how many bytes were used */
  private *step(bytes: Buffer): Generator<Buffer, number, undefined> {
    const end = bytes.indexOf(LINE_FEED);
    switch (this.mode) {
      case 'skip':
        if (end >= 0) this.mode = 'time';
        return end < 0 ? bytes.length : end + 1;
      case 'text':
        return yield* this.text(bytes, end);
      case 'time':
      case 'joint':
        return yield* this.time(bytes, end);
    }
  }

  /** Collects bytes up to a space, and decides what they are. */
  private *time(line: Buffer, lineEnd: number): Generator<Buffer, number, undefined> {
    const bytes = line.subarray(0, LONGEST_TIME - this.held.length);
    const end = lineEnd < bytes.length ? lineEnd : -1;
    const space = bytes.indexOf(SPACE);
    const isComplete = space >= 0 && (end < 0 || space < end);
    const used = isComplete ? space + 1 : end < 0 ? bytes.length : end;
    const wasJoint = this.mode === 'joint';
    const all = Buffer.concat([this.held, bytes.subarray(0, used)]);
    if (!isComplete && end < 0 && all.length < LONGEST_TIME) {
      this.held = all;
      return used;
    }
    this.held = Buffer.alloc(0);
    const found = isComplete ? all.subarray(0, -1).toString() : '';
    if (wasJoint) {
      this.mode = 'text';
      if (!TIME.test(found)) yield* this.emit(all);
    } else if (TIME.test(found)) {
      yield* this.begin(found);
    } else {
      this.mode = 'skip';
    }
    return used;
  }

  private *begin(time: string): Generator<Buffer, void, undefined> {
    const repeated = this.repeated.get(time) ?? 0;
    if (repeated > 0) {
      this.repeated.set(time, repeated - 1);
      this.mode = 'skip';
      return;
    }
    this.mode = 'text';
    this.given = 0;
    this.known = this.open?.time === time ? this.open.bytes : 0;
    if (this.open !== null && this.open.time !== time) yield this.finish(this.open.time);
    this.open ??= { time, bytes: 0 };
    this.enter(time);
  }

  private *text(bytes: Buffer, end: number): Generator<Buffer, number, undefined> {
    const toJoint = PIECE_BYTES - (this.given % PIECE_BYTES);
    const length = Math.min(end < 0 ? bytes.length : end, toJoint);
    yield* this.emit(bytes.subarray(0, length));
    if (length === end) {
      if (this.open !== null) yield this.finish(this.open.time);
      this.mode = 'time';
      return length + 1;
    }
    if (length === toJoint) this.mode = 'joint';
    return length;
  }

  /** Hands on text of the open line, except what an earlier connection has given. */
  private *emit(bytes: Buffer): Generator<Buffer, void, undefined> {
    const fresh = bytes.subarray(Math.max(0, this.known - this.given));
    this.given += bytes.length;
    if (this.open !== null) this.open.bytes = Math.max(this.open.bytes, this.given);
    if (fresh.length > 0) yield fresh;
  }

  private finish(time: string): Buffer {
    if (secondOf(time) === this.second) this.seen.set(time, (this.seen.get(time) ?? 0) + 1);
    this.open = null;
    return LINE_FEED;
  }

  private enter(time: string): void {
    const second = secondOf(time);
    if (this.second !== null && second <= this.second) return;
    this.second = second;
    this.seen = new Map();
  }
}

function secondOf(time: string): number {
  return Math.floor(Date.parse(time) / 1000);
}
