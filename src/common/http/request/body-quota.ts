import { Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { Settings } from '../../../config/settings.js';
import { Quota } from '../../quotas/quota.js';

/** Bytes of a body that are not counted, so that small requests cost nothing. */
const UNCOUNTED_BYTES = 16 * 1024;

/** Bounds the bytes of request bodies in progress, from their arrival to the end of the responses or to `forget`. */
@Injectable()
export class BodyQuota {
  readonly #quota: Quota;
  /** Give the bytes of a request's body back. */
  readonly #releases = new WeakMap<Request, () => void>();

  constructor({ bodyBytes, bodyBytesPerKey, maxBodyBytes }: Settings) {
    // Each key can always send one body of the largest size, in whatever pieces.
    const least = 2 * maxBodyBytes;
    this.#quota = new Quota({
      what: 'bytes of request bodies in progress',
      setting: 'SERVICE_BODY_BYTES',
      total: Math.max(bodyBytes, least),
      perKey: Math.max(bodyBytesPerKey, least),
    });
  }

  /** Bytes that are reserved now. */
  get held(): number {
    return this.#quota.held;
  }

  /** @returns a function that reserves the bytes of a growing body and throws OverLimit */
  reservation(request: Request, response: Response): (bytes: number) => void {
    const keyId = request.user?.id ?? '';
    let reserved = 0;
    const release = (): void => {
      if (reserved > 0) this.#quota.release(keyId, reserved);
      reserved = 0;
    };
    return (bytes) => {
      if (bytes <= UNCOUNTED_BYTES) return;
      this.#quota.take(keyId, bytes - reserved);
      if (reserved === 0) {
        response.once('close', release);
        this.#releases.set(request, release);
      }
      reserved = bytes;
    };
  }

  /** Drops the body of a request that is held open, and gives its bytes back. */
  forget(request: Request): void {
    request.body = undefined;
    this.#releases.get(request)?.();
  }
}
