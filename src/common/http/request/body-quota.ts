import { Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import { Settings } from '../../../config/settings.js';
import { Quota } from '../../quotas/quota.js';
import { Refusals } from '../../quotas/refusals.js';

/** Bytes of a body that are not counted, so that small requests cost nothing. */
const UNCOUNTED_BYTES = 16 * 1024;

/** Bounds the bytes of request bodies in progress, from their arrival to the end of the responses. */
@Injectable()
export class BodyQuota {
  readonly #quota: Quota;

  constructor({ bodyBytes, bodyBytesPerKey, maxBodyBytes }: Settings, refusals: Refusals) {
    // Each key can always send one body of the largest size, in whatever pieces.
    const least = 2 * maxBodyBytes;
    const limits = {
      what: 'bytes of request bodies in progress',
      total: { max: Math.max(bodyBytes, least), setting: 'SERVICE_BODY_BYTES' },
      perKey: { max: Math.max(bodyBytesPerKey, least), setting: 'SERVICE_BODY_BYTES_PER_KEY' },
    };
    this.#quota = new Quota(limits, refusals);
  }

  /** Bytes that are reserved now. */
  get held(): number {
    return this.#quota.held;
  }

  /** @returns a function that reserves the bytes of a growing body and throws KeyOverQuota or ProcessOverQuota */
  reservation({ user }: Request, response: Response): (bytes: number) => void {
    const keyId = user?.id ?? '';
    let reserved = 0;
    return (bytes) => {
      if (bytes <= UNCOUNTED_BYTES) return;
      this.#quota.take(keyId, bytes - reserved);
      if (reserved === 0) response.once('close', () => this.#quota.release(keyId, reserved));
      reserved = bytes;
    };
  }
}
