import { IdempotencyMismatch } from '../run.errors.js';
import type { RegisteredKey } from '../idempotency/idempotency.repository.js';

export interface Idempotency {
  /** Digest of the key, API key, method and path. */
  readonly scope: string;
  /** Digest of the request's content. */
  readonly requestHash: string;
}

/** The registered idempotency keys of one group: tells first requests from replays. A rejected request uses no key. */
export class IdempotencyLedger {
  readonly #used = new Set<string>();

  /** @param registered the stored keys by scope, whether this group inserted or found them */
  constructor(private readonly registered: ReadonlyMap<string, RegisteredKey>) {}

  /** Id of the run of an earlier request with this key, or null. @throws IdempotencyMismatch */
  replayOf(idempotency: Idempotency | undefined): string | null {
    const key = idempotency && this.registered.get(idempotency.scope);
    if (!key) return null;
    if (key.requestHash !== idempotency.requestHash || key.runId === null) throw new IdempotencyMismatch();
    return key.isNew && !this.#used.has(key.scope) ? null : key.runId;
  }

  use(idempotency: Idempotency | undefined): void {
    if (idempotency) this.#used.add(idempotency.scope);
  }

  /** Scopes of keys that this group inserted and no accepted request used. */
  get unused(): string[] {
    return [...this.registered.values()].flatMap(({ isNew, scope }) =>
      isNew && !this.#used.has(scope) ? [scope] : [],
    );
  }
}
