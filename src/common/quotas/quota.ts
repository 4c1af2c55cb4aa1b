import { OverLimit } from '../errors/domain-error.js';
import { Injectable } from '@nestjs/common';
import { Counter, Registry } from 'prom-client';

/** The settings that hold quotas of all API keys; those of one key have the suffix `_PER_KEY`. */
const QUOTA_SETTINGS = [
  'SERVICE_BODY_BYTES',
  'SERVICE_READERS',
  'SERVICE_WAITING_CLAIMS',
  'SERVICE_LOG_SEARCHES',
] as const;

interface QuotaLimits {
  /** What the refusals name, such as `event streams and waiting polls`. */
  readonly what: string;
  readonly setting: (typeof QUOTA_SETTINGS)[number];
  /** The largest sum of all keys, and that of one. */
  readonly total: number;
  readonly perKey: number;
}

/** How soon a refused caller may try again. */
const RETRY_AFTER_S = 5;

/** Bounds what the API keys hold of one thing, places or bytes, in sum and each. */
export class Quota {
  readonly #byKey = new Map<string, number>();
  #total = 0;

  constructor(private readonly limits: QuotaLimits) {}

  /** What all keys hold now. */
  get held(): number {
    return this.#total;
  }

  /** @throws OverLimit; nothing is taken then */
  take(keyId: string, amount = 1): void {
    const exceeded = this.#take(keyId, amount);
    if (exceeded === null) return;
    const { what, setting, total, perKey } = this.limits;
    throw exceeded === 'perKey'
      ? new OverLimit(
          `Too many ${what} of this API key: at most ${perKey}`,
          `${setting}_PER_KEY`,
          RETRY_AFTER_S,
        )
      : new OverLimit(`Too many ${what}: at most ${total}`, setting, RETRY_AFTER_S, 'unavailable');
  }

  /** As `take`, for a request that goes on without it. @returns whether it is taken */
  tryTake(keyId: string, amount = 1): boolean {
    return this.#take(keyId, amount) === null;
  }

  /** Gives back what `take` took. */
  release(keyId: string, amount = 1): void {
    const held = (this.#byKey.get(keyId) ?? 0) - amount;
    this.#total -= amount;
    if (held === 0) this.#byKey.delete(keyId);
    else this.#byKey.set(keyId, held);
  }

  /** @returns the limit that is exceeded; null: it is taken */
  #take(keyId: string, amount: number): 'perKey' | 'total' | null {
    const { total, perKey } = this.limits;
    const held = (this.#byKey.get(keyId) ?? 0) + amount;
    if (held > perKey) return 'perKey';
    if (this.#total + amount > total) return 'total';
    this.#total += amount;
    this.#byKey.set(keyId, held);
    return null;
  }
}

/** Counts what was refused or cut off because of a limit; the limit is the name of its setting. */
@Injectable()
export class Refusals {
  readonly #refused: Counter<'limit'>;

  constructor(registry: Registry) {
    this.#refused = new Counter({
      name: 'longshore_refused_total',
      help: 'Requests refused and connections cut off because of a limit, by its setting',
      labelNames: ['limit'],
      registers: [registry],
    });
    for (const limit of QUOTA_SETTINGS) {
      this.#refused.inc({ limit }, 0);
      this.#refused.inc({ limit: `${limit}_PER_KEY` }, 0);
    }
  }

  count(limit: string): void {
    this.#refused.inc({ limit });
  }
}
