import { createHash } from 'node:crypto';

const POSITION_BYTES = 8;
const HASH_BYTES = 6;
const TOKEN_AT = POSITION_BYTES + HASH_BYTES;

/** Bytes by which branches of the feeds are told apart. */
export const TOKEN_BYTES = 6;

/** Cursors of the first branch have no token: they are 19 characters long, the others 27. */
const FORM = /^[A-Za-z0-9_-]{19}(?:[A-Za-z0-9_-]{8})?$/;

/** What a cursor says. */
export interface FeedCursor {
  /** Everything up to this position, itself included, has been read; 0 for nothing. */
  readonly position: number;
  /** Whether it was made for the topic. */
  readonly isOfTopic: boolean;
  /** Token of the branch that it was made on; null for the first one, before any restore of the database. */
  readonly branch: string | null;
}

/** The cursor of a position in a topic's feed, as clients see it. */
export function encodeCursor(topic: string, position: number, branch: string | null = null): string {
  return cursorsOf(topic, branch)(position);
}

/** Makes cursors of one topic on one branch. */
export function cursorsOf(topic: string, branch: string | null = null): (position: number) => string {
  const tail = Buffer.concat([hashOf(topic), Buffer.from(branch ?? '', 'base64url')]);
  return (position) => {
    const bytes = Buffer.alloc(POSITION_BYTES + tail.length);
    bytes.writeBigUInt64BE(BigInt(position));
    tail.copy(bytes, POSITION_BYTES);
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
  const token = bytes.subarray(TOKEN_AT);
  return {
    position: Number(position),
    isOfTopic: bytes.subarray(POSITION_BYTES, TOKEN_AT).equals(hashOf(topic)),
    branch: token.length === 0 ? null : token.toString('base64url'),
  };
}

function hashOf(topic: string): Buffer {
  return createHash('sha256').update(topic).digest().subarray(0, HASH_BYTES);
}
