import { Inject, Injectable } from '@nestjs/common';
import type { ApiKeySetting } from '../settings/settings.js';
import type { Caller, Scope } from './access.js';
import { hashApiKey, isMistypedApiKey } from './api-key.js';

/** Injection token of the keys that the process was started with. */
export const STARTING_KEYS = Symbol('STARTING_KEYS');

/** Knows who a key belongs to. Keys are kept as hashes only. */
@Injectable()
export class ApiKeysService {
  readonly #callers = new Map<string, Caller>();

  /** @param keys a key that is listed with several scopes has them all */
  constructor(@Inject(STARTING_KEYS) keys: readonly ApiKeySetting[]) {
    for (const { scope, key } of keys) {
      const hash = hashApiKey(key);
      const scopes = new Set<Scope>([...(this.#callers.get(hash)?.scopes ?? []), scope]);
      this.#callers.set(hash, {
        id: hash,
        name: `settings:${[...scopes].join('+')}`,
        scopes,
      });
    }
  }

  /** The caller that the key belongs to, or null. */
  verify(key: string): Caller | null {
    return isMistypedApiKey(key) ? null : (this.#callers.get(hashApiKey(key)) ?? null);
  }
}
