import { Injectable } from '@nestjs/common';
import { Settings } from '../config/settings.js';
import { TooManyFailedAuthentications } from './auth.errors.js';
import { MonotonicClock } from './monotonic-clock.js';
import { RateLimitStorage } from './rate-limit-storage.js';

const SECOND_MS = 1000;

/** Pairs of an address and a key that are remembered. */
const MAX_KNOWN = 20_000;

/**
 * Limits the failed authentications of an address (SERVICE_AUTH_FAILURE_LIMIT). At the limit, the address may use only keys
 * that were valid from there before: no other key is looked up, so that guesses reveal nothing.
 */
@Injectable()
export class FailedAuthentications {
  readonly #failures: RateLimitStorage;
  /** Oldest first. */
  readonly #known = new Set<string>();

  constructor(
    private readonly settings: Settings,
    clock: MonotonicClock,
  ) {
    this.#failures = new RateLimitStorage(clock);
  }

  /** Number of keys and addresses in memory. */
  get size(): number {
    return this.#known.size + this.#failures.size;
  }

  /** Call it before a key is looked up. @throws TooManyFailedAuthentications */
  check(address: string, hash: string): void {
    const { authFailureLimit: limit } = this.settings;
    if (this.#failures.size === 0 || this.#failures.hitsOf(address) < limit) return;
    if (!this.#known.has(pairOf(address, hash))) throw new TooManyFailedAuthentications();
  }

  /** Notes the result of a lookup. */
  note(address: string, hash: string, isValid: boolean): void {
    const { authFailureLimit: limit } = this.settings;
    if (limit === 0) return;
    const pair = pairOf(address, hash);
    if (!isValid) {
      this.#known.delete(pair);
      void this.#failures.increment(address, SECOND_MS, limit);
      return;
    }
    this.#known.add(pair);
    if (this.#known.size <= MAX_KNOWN) return;
    const [oldest = ''] = this.#known;
    this.#known.delete(oldest);
  }
}

function pairOf(address: string, hash: string): string {
  return `${hash} ${address}`;
}
