import type { PartUploads, SignedUrl } from '../stores/file-store.js';

/** Parts of an upload, at most: the limit of S3. */
export const MAX_PARTS = 10_000;

/** A part of an upload, and the request that sends it. */
export interface SignedPart {
  readonly number: number;
  readonly bytes: number;
  readonly put: SignedUrl;
}

/** What an upload in parts is to have. */
export interface PartedUpload {
  readonly bytes: number;
  /** Bytes of each part but the last. */
  readonly partBytes: number;
  readonly validS: number;
  /** Number of the first part that is signed; absent: 1. */
  readonly first?: number;
}

/** As many bytes as each part must have, so that there are not too many. */
export function partBytesFor(bytes: number, wanted: number): number {
  return Math.max(wanted, Math.ceil(bytes / MAX_PARTS));
}

/** The requests that send the parts of an upload from one on, in their order. */
export function signParts(
  parts: PartUploads,
  key: string,
  uploadId: string,
  { bytes, partBytes, validS, first = 1 }: PartedUpload,
): Promise<SignedPart[]> {
  const length = Math.max(0, Math.ceil(bytes / partBytes) - first + 1);
  const numbers = Array.from({ length }, (_, index) => index + first);
  return Promise.all(
    numbers.map(async (number) => {
      const ofPart = Math.min(partBytes, bytes - (number - 1) * partBytes);
      return {
        number,
        bytes: ofPart,
        put: await parts.signPart(key, uploadId, number, { bytes: ofPart, validS }),
      };
    }),
  );
}
