import { DomainError } from '../errors/domain-error.js';
import { Injectable } from '@nestjs/common';
import { Counter, Registry } from 'prom-client';

/** The largest sum, and the setting that holds it. */
export interface Limit {
  readonly max: number;
  readonly setting: string;
}

export interface QuotaLimits {
  /** What the refusals name, such as `event streams and waiting polls`. */
  readonly what: string;
  readonly total: Limit;
  /** Of one API key. */
  readonly perKey: Limit;
}

/** How soon a refused caller may try again. */
const RETRY_AFTER_S = 5;

/** The API key holds as much as one key may: 429. */
export class KeyOverQuota extends DomainError {
  readonly kind = 'rate-limited';

  constructor(what: string, { max, setting }: Limit) {
    super(`Too many ${what} of this API key: at most ${max} (${setting})`, {
      retryAfterSeconds: RETRY_AFTER_S,
    });
  }
}

/** All keys together hold as much as the server process allows: 503. */
export class ProcessOverQuota extends DomainError {
  readonly kind = 'unavailable';

  constructor(what: string, { max, setting }: Limit) {
    super(`Too many ${what}: at most ${max} (${setting})`, { retryAfterSeconds: RETRY_AFTER_S });
  }
}

/** Bounds what the API keys hold of one thing, places or bytes, in sum and each. */
export class Quota {
  readonly #byKey = new Map<string, number>();
  #total = 0;

  constructor(
    private readonly limits: QuotaLimits,
    private readonly refusals: Pick<Refusals, 'count' | 'declare'>,
  ) {
    refusals.declare(limits.total.setting);
    refusals.declare(limits.perKey.setting);
  }

  /** What all keys hold now. */
  get held(): number {
    return this.#total;
  }

  /** @throws KeyOverQuota, ProcessOverQuota; nothing is taken then */
  take(keyId: string, amount = 1): void {
    const exceeded = this.#take(keyId, amount);
    if (exceeded === null) return;
    const { what, [exceeded]: limit } = this.limits;
    this.refusals.count(limit.setting);
    throw exceeded === 'perKey' ? new KeyOverQuota(what, limit) : new ProcessOverQuota(what, limit);
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
    if (held > perKey.max) return 'perKey';
    if (this.#total + amount > total.max) return 'total';
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
  }

  /** Shows the limit in the metrics before its first refusal. */
  declare(limit: string): void {
    this.#refused.inc({ limit }, 0);
  }

  count(limit: string): void {
    this.#refused.inc({ limit });
  }
}
