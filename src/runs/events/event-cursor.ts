import type { EventPlace } from './committed-event.js';

const RUN_AT = 8;
const INDEX_AT = 24;
const TOKEN_AT = 28;

/** 28 bytes as base64url, and after a restore 6 more. */
const FORM = /^[A-Za-z0-9_-]{38}(?:[A-Za-z0-9_-]{8})?$/;

/** Bits of `events.commit_order` below the number of the restore. */
const EPOCH_SHIFT = 48n;

/** Before all events. */
export const FIRST_PLACE: EventPlace = {
  commitOrder: '0',
  runId: '00000000-0000-0000-0000-000000000000',
  index: -1,
};

/** Number of the restore after which an event was recorded; 0: it was before any. */
export function epochOf({ commitOrder }: EventPlace): number {
  return Number(BigInt(commitOrder) >> EPOCH_SHIFT);
}

export function encodeEventCursor({ commitOrder, runId, index }: EventPlace, token: string | null): string {
  const bytes = Buffer.alloc(TOKEN_AT);
  bytes.writeBigInt64BE(BigInt(commitOrder));
  bytes.write(runId.replaceAll('-', ''), RUN_AT, 'hex');
  bytes.writeInt32BE(index, INDEX_AT);
  return Buffer.concat([bytes, Buffer.from(token ?? '', 'base64url')]).toString('base64url');
}

/** Reads a cursor; null if it is malformed. The token is that of the restore before the event; null: none was before it. */
export function decodeEventCursor(
  text: string,
): { readonly place: EventPlace; readonly token: string | null } | null {
  if (!FORM.test(text)) return null;
  const bytes = Buffer.from(text, 'base64url');
  // Without this check several texts would stand for the same bytes.
  if (bytes.toString('base64url') !== text) return null;
  const runId = bytes
    .toString('hex', RUN_AT, INDEX_AT)
    .replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  const place = { commitOrder: String(bytes.readBigInt64BE()), runId, index: bytes.readInt32BE(INDEX_AT) };
  const token = bytes.length > TOKEN_AT ? bytes.toString('base64url', TOKEN_AT) : null;
  const epoch = epochOf(place);
  return epoch < 0 || place.index < 0 || epoch > 0 !== (token !== null) ? null : { place, token };
}
