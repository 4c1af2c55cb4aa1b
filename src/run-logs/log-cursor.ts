import { createHash } from 'node:crypto';
import type { LogPoint } from './log-point.js';

const ATTEMPT_BYTES = 2;
const LINE_BYTES = 6;
const TEXT_BYTES_AT = ATTEMPT_BYTES + LINE_BYTES;
const TEXT_HIGH_BYTES = 3;
const GAPS_AT = TEXT_BYTES_AT + TEXT_HIGH_BYTES + 4;
const HASH_AT = GAPS_AT + 4;
const HASH_BYTES = 5;
const LENGTH = HASH_AT + HASH_BYTES;
const FORM = /^[A-Za-z0-9_-]{32}$/;
const WORD = 2 ** 32;

/** What a cursor says. */
export interface LogCursor {
  readonly attempt: number;
  readonly point: LogPoint;
}

/** Makes cursors of one log. */
export function cursorsOf(runId: string, attempt: number): (point: LogPoint) => string {
  const hash = hashOf(runId);
  return ({ line, bytes, unknownGaps }) => {
    const buffer = Buffer.alloc(LENGTH);
    buffer.writeUInt16BE(attempt, 0);
    buffer.writeUIntBE(line, ATTEMPT_BYTES, LINE_BYTES);
    buffer.writeUIntBE(Math.floor(bytes / WORD), TEXT_BYTES_AT, TEXT_HIGH_BYTES);
    buffer.writeUInt32BE(bytes % WORD, TEXT_BYTES_AT + TEXT_HIGH_BYTES);
    buffer.writeUInt32BE(unknownGaps, GAPS_AT);
    hash.copy(buffer, HASH_AT);
    return buffer.toString('base64url');
  };
}

/** Reads a cursor that came with a run; null when no log of that run made it. */
export function decodeCursor(runId: string, text: string): LogCursor | null {
  if (!FORM.test(text)) return null;
  const buffer = Buffer.from(text, 'base64url');
  if (!buffer.subarray(HASH_AT).equals(hashOf(runId))) return null;
  const bytes =
    buffer.readUIntBE(TEXT_BYTES_AT, TEXT_HIGH_BYTES) * WORD +
    buffer.readUInt32BE(TEXT_BYTES_AT + TEXT_HIGH_BYTES);
  return {
    attempt: buffer.readUInt16BE(0),
    point: {
      line: buffer.readUIntBE(ATTEMPT_BYTES, LINE_BYTES),
      bytes,
      unknownGaps: buffer.readUInt32BE(GAPS_AT),
    },
  };
}

function hashOf(runId: string): Buffer {
  return createHash('sha256').update(runId).digest().subarray(0, HASH_BYTES);
}
