import { createHash } from 'node:crypto';

const POSITION_BYTES = 8;
const HASH_BYTES = 6;
const TOKEN_AT = POSITION_BYTES + HASH_BYTES;

/** 19 characters in the first epoch, which has no token; 27 in later ones. */
const FORM = /^[A-Za-z0-9_-]{19}(?:[A-Za-z0-9_-]{8})?$/;

export interface FeedCursor {
  /** Position of the last entry that was read; 0 for none. */
  readonly position: number;
  /** Whether it was made for the topic. */
  readonly isOfTopic: boolean;
  /** Token of its feed epoch; null for the first one, before any restore of the database. */
  readonly epoch: string | null;
}

/** Makes cursors of one topic in one epoch. */
export function cursorsOf(topic: string, epoch: string | null): (position: number) => string {
  const tail = Buffer.concat([hashOf(topic), Buffer.from(epoch ?? '', 'base64url')]);
  return (position) => {
    const bytes = Buffer.alloc(POSITION_BYTES + tail.length);
    bytes.writeBigUInt64BE(BigInt(position));
    tail.copy(bytes, POSITION_BYTES);
    return bytes.toString('base64url');
  };
}

/** Reads a client's cursor for a topic; null if it is malformed. */
export function decodeCursor(topic: string, text: string): FeedCursor | null {
  if (!FORM.test(text)) return null;
  const bytes = Buffer.from(text, 'base64url');
  // The last character has two spare bits: only one spelling of a cursor is valid.
  if (bytes.toString('base64url') !== text) return null;
  const position = bytes.readBigUInt64BE();
  if (position > BigInt(Number.MAX_SAFE_INTEGER)) return null;
  const token = bytes.subarray(TOKEN_AT);
  return {
    position: Number(position),
    isOfTopic: bytes.subarray(POSITION_BYTES, TOKEN_AT).equals(hashOf(topic)),
    epoch: token.length === 0 ? null : token.toString('base64url'),
  };
}

function hashOf(topic: string): Buffer {
  return createHash('sha256').update(topic).digest().subarray(0, HASH_BYTES);
}
