import { Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { Clock } from '../common/clock.js';
import { Settings } from '../config/settings.js';
import { OverLimit } from '../common/errors/domain-error.js';
import { RateLimitStorage } from './rate-limit.guard.js';

const SECOND_MS = 1000;

/** Valid keys that are remembered, and addresses of each. */
const MAX_KEYS = 10_000;
const MAX_ADDRESSES = 100;

/**
 * Limits the failed authentications of an address (SERVICE_AUTH_FAILURE_LIMIT). At the limit, the address may use only keys
 * that were valid from there before: no other key is looked up, so that guesses reveal nothing.
 */
@Injectable()
export class FailedAuthentications {
  readonly #failures: RateLimitStorage;
  /** Addresses from which each key was valid, oldest first, by the key's hash. */
  readonly #known = new LRUCache<string, Set<string>>({ max: MAX_KEYS });

  constructor(
    private readonly settings: Settings,
    clock: Clock,
  ) {
    this.#failures = new RateLimitStorage(clock);
  }

  /** Number of addresses in memory. */
  get size(): number {
    const known = [...this.#known.values()].reduce((sum, addresses) => sum + addresses.size, 0);
    return known + this.#failures.size;
  }

  /** Call it before a key is looked up. @throws OverLimit */
  check(address: string, hash: string): void {
    const { authFailureLimit: limit } = this.settings;
    if (this.#failures.size === 0 || this.#failures.hitsOf(address) < limit) return;
    if (this.#known.get(hash)?.has(address) === true) return;
    throw new OverLimit('Too many failed authentications', 'SERVICE_AUTH_FAILURE_LIMIT', 1);
  }

  /** Notes the result of a lookup. */
  note(address: string, hash: string, isValid: boolean): void {
    const { authFailureLimit: limit } = this.settings;
    if (limit === 0) return;
    if (!isValid) {
      this.#known.get(hash)?.delete(address);
      void this.#failures.increment(address, SECOND_MS, limit);
      return;
    }
    let addresses = this.#known.get(hash);
    if (!addresses) {
      addresses = new Set();
      this.#known.set(hash, addresses);
    }
    addresses.add(address);
    const [oldest = ''] = addresses;
    if (addresses.size > MAX_ADDRESSES) addresses.delete(oldest);
  }
}
