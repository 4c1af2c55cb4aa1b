import { Inject, Injectable } from '@nestjs/common';
import type { Caller, Scope } from './access.js';
import { hashApiKey, isApiKey } from './api-key.js';
import { KeyUsage } from './key-usage.js';
import { STARTING_KEYS, type StartingKey } from './startup-keys.js';
import { StoredKeys } from './api-key-cache.js';

/** Knows who a key belongs to: first the keys that the process was started with, then those of the database. */
@Injectable()
export class ApiKeyVerifier {
  readonly #starting = new Map<string, Caller>();

  /** @param startingKeys a key that is listed with several scopes has them all */
  constructor(
    @Inject(STARTING_KEYS) startingKeys: readonly StartingKey[],
    private readonly stored: StoredKeys,
    private readonly usage: KeyUsage,
  ) {
    for (const { scope, key, origin } of startingKeys) {
      const hash = hashApiKey(key);
      const scopes = new Set<Scope>([...(this.#starting.get(hash)?.scopes ?? []), scope]);
      this.#starting.set(hash, {
        id: hash,
        name: `${origin}:${[...scopes].join('+')}`,
        scopes,
        expiresAt: null,
      });
    }
  }

  /**
   * The caller that the key belongs to, or null: at once when that is known, a promise when the database is asked. Keys of
   * settings may have any form; anything else that is not in the form of our keys, or is mistyped, is refused without
   * asking.
   * @throws what the database fails with, when the key could be one of its
   */
  verify(key: string): Caller | null | Promise<Caller | null> {
    const hash = hashApiKey(key);
    const starting = this.#starting.get(hash);
    if (starting) return starting;
    const known = this.stored.findKnown(hash);
    if (known !== undefined) return this.#noteUse(known);
    if (!this.stored.hasMet(hash) && !isApiKey(key)) return null;
    return this.stored.find(hash).then((caller) => this.#noteUse(caller));
  }

  #noteUse(caller: Caller | null): Caller | null {
    if (caller) this.usage.note(caller.id);
    return caller;
  }
}
