import type { LogLine } from '../../runtime.js';
import type { OutputChunk } from '../../log-lines.js';

const HEADER_BYTES = 8;

const LINE_END = Buffer.from('\n');

/**
 * Takes the frames of an engine's attach stream apart: an 8-byte header (stream number, three zero bytes, payload
 * length big-endian), then the payload. Payloads are handed on in the pieces in which they arrive, however long the
 * frame claims to be, so nothing is collected here and the consumer's pace reaches the engine.
 * @throws Error when a header is impossible: the stream is then no multiplexed one, or out of step
 */
export async function* demultiplex(
  chunks: AsyncIterable<{ readonly bytes: Buffer }>,
): AsyncGenerator<OutputChunk<LogLine['stream']>, void, undefined> {
  const header = Buffer.alloc(HEADER_BYTES);
  let headerLength = 0;
  let payloadLeft = 0;
  let stream: LogLine['stream'] = 'stdout';
  for await (const { bytes } of chunks) {
    let at = 0;
    while (at < bytes.length) {
      if (payloadLeft > 0) {
        const end = Math.min(bytes.length, at + payloadLeft);
        payloadLeft -= end - at;
        yield { stream, bytes: bytes.subarray(at, end) };
        at = end;
        continue;
      }
      const copied = bytes.copy(header, headerLength, at, at + HEADER_BYTES - headerLength);
      headerLength += copied;
      at += copied;
      if (headerLength === HEADER_BYTES) {
        headerLength = 0;
        stream = streamOf(header);
        payloadLeft = header.readUInt32BE(4);
      }
    }
  }
}

/** An entry of an engine's log of a container: a line with its line end, or a piece of a long one. */
export interface LogEntry {
  readonly stream: LogLine['stream'];
  /** As the engine wrote it, with nanoseconds. */
  readonly time: string;
  readonly bytes: Buffer;
}

/** Longest frame of a log, in bytes; engines cut lines at 16 KiB. */
const MAX_ENTRY = 1024 * 1024;

/** Size of the pieces of a long line, in bytes. */
const PIECE_BYTES = 16 * 1024;

/**
 * Takes a log with timestamps apart, in which each frame is one entry. An entry that is no full piece ends its line, also where
 * Docker 20.10 leaves the line end of a long line out.
 * @throws Error when it has no frames
 */
export async function* logEntries(
  chunks: AsyncIterable<{ readonly bytes: Buffer }>,
): AsyncGenerator<LogEntry, void, undefined> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const { bytes: received } of chunks) {
    rest = rest.length === 0 ? received : Buffer.concat([rest, received]);
    while (rest.length >= HEADER_BYTES) {
      const stream = streamOf(rest);
      const end = HEADER_BYTES + rest.readUInt32BE(4);
      if (end > MAX_ENTRY) throw new Error('the container engine sent a log entry that is too long');
      if (rest.length < end) break;
      const space = rest.indexOf(' ', HEADER_BYTES);
      const time = rest.toString('latin1', HEADER_BYTES, space);
      const bytes = rest.subarray(space + 1, end);
      const isCut = bytes.length < PIECE_BYTES && bytes.at(-1) !== LINE_END[0];
      yield { stream, time, bytes: isCut ? Buffer.concat([bytes, LINE_END]) : bytes };
      rest = rest.subarray(end);
    }
  }
}

/** 0 (what went in) is shown with 1, the program's output; 3 (the engine's own errors) with 2, its errors. */
function streamOf(header: Buffer): LogLine['stream'] {
  const number = header.readUInt8(0);
  if (number > 3 || header.readUIntBE(1, 3) !== 0)
    throw new Error('the container engine sent output without frames');
  return number < 2 ? 'stdout' : 'stderr';
}
