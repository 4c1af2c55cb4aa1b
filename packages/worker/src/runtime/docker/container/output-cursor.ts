import { createHash } from 'node:crypto';
import type { LogLine, OutputCursors, OutputEnds } from '../../runtime.js';

type Stream = LogLine['stream'];

/** Bytes of the beginning of a stream by which a later process recognizes it. */
const BEGINNING_BYTES = 256;

/** Characters of its digest: enough to tell two logs apart, and too few to find out what was written. */
const DIGEST_LENGTH = 8;

const FORM = /^([0-9]{1,16})\.([0-9a-f]{8})\.([0-9]{1,16})\.([0-9a-f]{8})\.([0-9]{1,16})$/;

/** Where an earlier process has ended. */
export interface OutputCursor {
  readonly ends: OutputEnds;
  /** Of the beginnings of the streams. */
  readonly digests: Readonly<Record<Stream, string>>;
  /** When the newest line was read, in milliseconds since 1970. */
  readonly atMs: number;
}

/** Null: it is not a cursor. */
export function readCursor(text: string): OutputCursor | null {
  const found = FORM.exec(text);
  if (found === null) return null;
  const [, stdout, ofStdout = '', stderr, ofStderr = '', atMs] = found;
  return {
    ends: { stdout: Number(stdout), stderr: Number(stderr) },
    digests: { stdout: ofStdout, stderr: ofStderr },
    atMs: Number(atMs),
  };
}

/** The beginnings of the streams of one output. */
export class OutputBeginnings implements OutputCursors {
  private readonly bytes: Record<Stream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
  /** Of whole beginnings, which do not change. */
  private readonly digests: Partial<Record<Stream, string>> = {};
  private readonly known: Partial<Record<Stream, boolean>> = {};

  /** @param earlier as the process before gave it; its digests stay those of the output, whatever its log begins with by now */
  constructor(private readonly earlier: OutputCursor | null) {}

  /** Adds bytes that follow those before. */
  add(stream: Stream, bytes: Buffer): void {
    const known = this.bytes[stream];
    if (known.length >= BEGINNING_BYTES) return;
    this.bytes[stream] = Buffer.concat([known, bytes.subarray(0, BEGINNING_BYTES - known.length)]);
  }

  /** Whether the stream begins as it did for the earlier process; null: too little of it is here to tell. */
  isKnown(stream: Stream): boolean | null {
    if (this.earlier === null) return true;
    const length = Math.min(BEGINNING_BYTES, this.earlier.ends[stream]);
    if (this.bytes[stream].length < length) return null;
    return (this.known[stream] ??= this.digest(stream, length) === this.earlier.digests[stream]);
  }

  write(ends: OutputEnds, atMs: number): string {
    const { stdout, stderr } = ends;
    return [stdout, this.digestAt('stdout', stdout), stderr, this.digestAt('stderr', stderr), atMs].join('.');
  }

  read(cursor: string): OutputEnds | null {
    return readCursor(cursor)?.ends ?? null;
  }

  private digestAt(stream: Stream, end: number): string {
    const { earlier } = this;
    if (earlier !== null && this.isKnown(stream) !== true) return earlier.digests[stream];
    if (end < BEGINNING_BYTES) return this.digest(stream, end);
    return (this.digests[stream] ??= this.digest(stream, BEGINNING_BYTES));
  }

  private digest(stream: Stream, length: number): string {
    const begin = this.bytes[stream].subarray(0, length);
    return createHash('sha256').update(begin).digest('hex').slice(0, DIGEST_LENGTH);
  }
}
