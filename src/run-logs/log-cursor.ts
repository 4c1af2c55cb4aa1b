import { createHash } from 'node:crypto';
import type { LogPosition } from './log-position.js';

// Offsets of the fields: attempt (2 bytes), line (6), bytes (7), unknown gaps (4), hash of the run id (5).
const LINE_AT = 2;
const BYTES_AT = 8;
const GAPS_AT = 15;
const HASH_AT = 19;
const LENGTH = 24;
const FORM = /^[A-Za-z0-9_-]{32}$/;

export interface LogCursor {
  readonly attempt: number;
  readonly position: LogPosition;
}

/** Makes cursors of one log. */
export function cursorsOf(runId: string, attempt: number): (position: LogPosition) => string {
  const hash = hashOf(runId);
  return ({ line, bytes, unknownGaps }) => {
    const buffer = Buffer.alloc(LENGTH);
    // The number of bytes has 7 bytes: its eighth, which is 0, is overwritten by the line.
    buffer.writeBigUInt64BE(BigInt(bytes), BYTES_AT - 1);
    buffer.writeUInt16BE(attempt);
    buffer.writeUIntBE(line, LINE_AT, BYTES_AT - LINE_AT);
    buffer.writeUInt32BE(unknownGaps, GAPS_AT);
    hash.copy(buffer, HASH_AT);
    return buffer.toString('base64url');
  };
}

/** Reads a client's cursor for a run; null if it was not made for this run. */
export function decodeCursor(runId: string, text: string): LogCursor | null {
  if (!FORM.test(text)) return null;
  const buffer = Buffer.from(text, 'base64url');
  if (!buffer.subarray(HASH_AT).equals(hashOf(runId))) return null;
  return {
    attempt: buffer.readUInt16BE(),
    position: {
      line: buffer.readUIntBE(LINE_AT, BYTES_AT - LINE_AT),
      bytes: Number(BigInt.asUintN(56, buffer.readBigUInt64BE(BYTES_AT - 1))),
      unknownGaps: buffer.readUInt32BE(GAPS_AT),
    },
  };
}

function hashOf(runId: string): Buffer {
  return createHash('sha256')
    .update(runId)
    .digest()
    .subarray(0, LENGTH - HASH_AT);
}
