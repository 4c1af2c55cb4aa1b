import { Inject, Injectable } from '@nestjs/common';
import type { Scope } from '../config/key-settings.js';
import type { Caller } from './access.js';
import { hashApiKey, isApiKey } from './api-key.js';
import { ApiKeyCache } from './api-key-cache.js';
import { FailedAuthentications } from './failed-authentications.js';
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
    private readonly failures: FailedAuthentications,
  ) {
    for (const { scope, key, origin, workerIds, workerTags, workerCapabilities } of startupKeys) {
      const id = hashApiKey(key);
      // A key may be listed several times, with different scopes.
      const scopes = new Set<Scope>([...(this.#startupCallers.get(id)?.scopes ?? []), scope]);
      const given = startupKeys.find((other) => other.key === key && other.name !== undefined)?.name;
      this.#startupCallers.set(id, {
        id,
        keyId: uuidOf(id),
        name: nameOf(origin, given, scopes, id),
        scopes,
        workerIds: workerIds ?? null,
        workerTags: workerTags ?? null,
        workerCapabilities: workerCapabilities ?? null,
        stores: null,
        expiresAt: null,
      });
    }
  }

  /**
   * The caller of the key, or null; a promise only when the database is queried. Text that is not in the form of our keys,
   * or is mistyped, is refused without a query.
   * @param address of the client; its failures are limited
   * @throws OverLimit; the error of the database when the key could be one of its
   */
  verify(key: string, address: string): Caller | null | Promise<Caller | null> {
    const hash = hashApiKey(key);
    this.failures.check(address, hash);
    const note = (caller: Caller | null): Caller | null => {
      this.failures.note(address, hash, caller !== null);
      return caller;
    };
    const startup = this.#startupCallers.get(hash);
    if (startup) return note(startup);
    const cached = this.cache.findCached(hash);
    if (cached !== undefined) return note(this.#noteUse(cached));
    if (!this.cache.has(hash) && !isApiKey(key)) return note(null);
    return this.cache.find(hash).then((caller) => note(this.#noteUse(caller)));
  }

  #noteUse(caller: Caller | null): Caller | null {
    if (caller) this.usage.note(caller.id);
    return caller;
  }
}

/** Tells the key from other keys with its scopes: its name, or the beginning of its digest. */
function nameOf(
  origin: StartupKey['origin'],
  given: string | undefined,
  scopes: ReadonlySet<Scope>,
  digest: string,
): string {
  return `${origin}:${given ?? `${[...scopes].join('+')}:${digest.slice(0, 8)}`}`;
}

/** A UUID (version 8) made of a digest. */
export function uuidOf(digest: string): string {
  return digest.replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/, '$1-$2-8$3-8$4-$5');
}
