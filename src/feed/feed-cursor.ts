import { createHash } from 'node:crypto';

const POSITION_BYTES = 8;
const HASH_BYTES = 6;
const FORM = /^[A-Za-z0-9_-]{19}$/;

/** What a cursor says. */
export interface FeedCursor {
  /** Everything up to this position, itself included, has been read; 0 for nothing. */
  readonly position: number;
  /** Whether it was made for the topic. */
  readonly isOfTopic: boolean;
}

/** The cursor of a position in a topic's feed, as clients see it. */
export function encodeCursor(topic: string, position: number): string {
  return cursorsOf(topic)(position);
}

/** Makes cursors of one topic. */
export function cursorsOf(topic: string): (position: number) => string {
  const hash = hashOf(topic);
  return (position) => {
    const bytes = Buffer.alloc(POSITION_BYTES + HASH_BYTES);
    bytes.writeBigUInt64BE(BigInt(position));
    hash.copy(bytes, POSITION_BYTES);
    return bytes.toString('base64url');
  };
}

/** Reads a cursor that came with a topic; null when no feed ever made it. */
export function decodeCursor(topic: string, text: string): FeedCursor | null {
  if (!FORM.test(text)) return null;
  const bytes = Buffer.from(text, 'base64url');
  // The last character carries two bits more than needed: only one spelling of a cursor is taken.
  if (bytes.toString('base64url') !== text) return null;
  const position = bytes.readBigUInt64BE();
  if (position > BigInt(Number.MAX_SAFE_INTEGER)) return null;
  return { position: Number(position), isOfTopic: bytes.subarray(POSITION_BYTES).equals(hashOf(topic)) };
}

function hashOf(topic: string): Buffer {
  return createHash('sha256').update(topic).digest().subarray(0, HASH_BYTES);
}
