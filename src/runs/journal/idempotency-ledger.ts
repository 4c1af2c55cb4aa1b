import { IdempotencyMismatch } from '../run.errors.js';
import type { RegisteredKey } from '../idempotency/idempotency.repository.js';

/** The key of a request that may be sent again, and what it was sent with. */
export interface Idempotency {
  /** Digest of the key and of what it belongs to. */
  readonly scope: string;
  /** Digest of the request's content. */
  readonly requestHash: string;
}

/**
 * The idempotency keys of one group, after they were registered: which request is the first with its key, and which
 * repeats one that was carried out. A request that is refused leaves its key free.
 */
export class IdempotencyLedger {
  readonly #used = new Set<string>();

  /** @param registered by scope: the entry that counts, made by this group or found */
  constructor(private readonly registered: ReadonlyMap<string, RegisteredKey>) {}

  /**
   * The run of the request that was carried out under this key; null when there was none, or no key is given.
   * @throws IdempotencyMismatch when that request had another content
   */
  replayOf(idempotency: Idempotency | undefined): string | null {
    const key = idempotency && this.registered.get(idempotency.scope);
    if (!key) return null;
    if (key.requestHash !== idempotency.requestHash || key.runId === null) throw new IdempotencyMismatch();
    return key.isNew && !this.#used.has(key.scope) ? null : key.runId;
  }

  /** Notes that a request with this key was carried out. */
  use(idempotency: Idempotency | undefined): void {
    if (idempotency) this.#used.add(idempotency.scope);
  }

  /** Scopes that this group has registered although every request with them was refused. */
  get unused(): string[] {
    return [...this.registered.values()]
      .filter(({ isNew, scope }) => isNew && !this.#used.has(scope))
      .map(({ scope }) => scope);
  }
}
