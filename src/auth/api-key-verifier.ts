import { Inject, Injectable } from '@nestjs/common';
import type { Caller, Scope } from './access.js';
import { hashApiKey, isApiKey } from './api-key.js';
import { ApiKeyCache } from './api-key-cache.js';
import { KeyUsage } from './key-usage.js';
import { STARTUP_KEYS, type StartupKey } from './startup-keys.js';

/** Finds the caller of a key: among the keys of the settings first, then in the database. */
@Injectable()
export class ApiKeyVerifier {
  readonly #startupCallers = new Map<string, Caller>();

  constructor(
    @Inject(STARTUP_KEYS) startupKeys: readonly StartupKey[],
    private readonly cache: ApiKeyCache,
    private readonly usage: KeyUsage,
  ) {
    for (const { scope, key, origin } of startupKeys) {
      const id = hashApiKey(key);
      // A key may be listed several times, with different scopes.
      const scopes = new Set<Scope>([...(this.#startupCallers.get(id)?.scopes ?? []), scope]);
      this.#startupCallers.set(id, {
        id,
        name: `${origin}:${[...scopes].join('+')}`,
        scopes,
        expiresAt: null,
      });
    }
  }

  /**
   * The caller of the key, or null; a promise only when the database is queried. Text that is not in the form of our keys,
   * or is mistyped, is refused without a query.
   * @throws the error of the database when the key could be one of its
   */
  verify(key: string): Caller | null | Promise<Caller | null> {
    const hash = hashApiKey(key);
    const startup = this.#startupCallers.get(hash);
    if (startup) return startup;
    const cached = this.cache.findCached(hash);
    if (cached !== undefined) return this.#noteUse(cached);
    if (!this.cache.has(hash) && !isApiKey(key)) return null;
    return this.cache.find(hash).then((caller) => this.#noteUse(caller));
  }

  #noteUse(caller: Caller | null): Caller | null {
    if (caller) this.usage.note(caller.id);
    return caller;
  }
}
