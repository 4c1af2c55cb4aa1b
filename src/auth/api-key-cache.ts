import { Injectable } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { LRUCache } from 'lru-cache';
import { withTimeout } from '@longshore/common/timeout';
import { BatchedReads } from '../database/sql/batched-reads.js';
import { SCOPES } from '../config/key-settings.js';
import type { Caller } from './access.js';
import { ApiKeysRepository, type UsableKey } from './api-keys.repository.js';
import { KeyCheckTooSlow } from './auth.errors.js';

/**
 * How long the result of a query about a key is used, in milliseconds from its start. It limits how long a process accepts
 * a key that another process revoked.
 */
export const MAX_AGE_MS = 3_000;

/** Entries kept of valid keys, and as many again of invalid ones. */
const MAX_ENTRIES = 10_000;

interface Entry {
  readonly queriedAt: number;
  /** Null for a key that is unknown, revoked or expired. */
  readonly caller: Caller | null;
  readonly expiresAt: number;
}

/**
 * Caches the keys of the database for a short time, valid and invalid ones apart, so that a flood of wrong keys evicts no
 * valid one. Unknown hashes are queried in batches, one query at a time, so that no flood takes all connections.
 */
@Injectable()
export class ApiKeyCache {
  readonly #valid = new LRUCache<string, Entry>({ max: MAX_ENTRIES });
  readonly #invalid = new LRUCache<string, Entry>({ max: MAX_ENTRIES });
  /** Hash of the key by which each caller was found. */
  readonly #hashes = new WeakMap<Caller, string>();
  readonly #queries: BatchedReads<string, undefined>;

  constructor(
    private readonly keys: ApiKeysRepository,
    private readonly clock: Clock,
  ) {
    this.#queries = new BatchedReads(async (hashes) => {
      // A request during a query of its key is in the next batch.
      const unknown = hashes.filter((hash) => this.findCached(hash) === undefined);
      if (unknown.length > 0) await this.#query(unknown);
      return new Map<string, undefined>();
    }, 1);
  }

  /**
   * The caller of the key with this hash; null for an invalid key.
   * @throws KeyCheckTooSlow when the database does not respond in time; other errors of the database
   */
  async find(hash: string): Promise<Caller | null> {
    const known = this.findCached(hash);
    if (known !== undefined) return known;
    await this.#queries.load(hash);
    const caller = this.findCached(hash);
    if (caller === undefined) throw new KeyCheckTooSlow();
    return caller;
  }

  /** As `find`, without a query: undefined when the cache holds no recent entry. */
  findCached(hash: string): Caller | null | undefined {
    const entry = this.#entryOf(hash);
    return entry && this.#callerOf(entry);
  }

  /** Whether the cache holds an entry, however old. */
  has(hash: string): boolean {
    return this.#entryOf(hash) !== undefined;
  }

  /** Whether the caller's key is in the database. */
  isRevocable(caller: Caller): boolean {
    return this.#hashes.has(caller);
  }

  /** Whether the caller's key is still valid. @throws as `find` */
  async isStillValid(caller: Caller): Promise<boolean> {
    const hash = this.#hashes.get(caller);
    return hash === undefined || (await this.find(hash)) !== null;
  }

  /** Notes that the key with this hash was revoked just now; results of queries in progress do not change that. */
  revoke(hash: string): void {
    this.#store(hash, { queriedAt: this.clock.now(), caller: null, expiresAt: Infinity });
  }

  /** Lets the next request query the key with this hash, because it was changed just now. */
  forget(hash: string): void {
    this.#valid.delete(hash);
  }

  #entryOf(hash: string): Entry | undefined {
    return this.#valid.get(hash) ?? this.#invalid.get(hash);
  }

  /** Undefined when the entry is too old. */
  #callerOf({ queriedAt, caller, expiresAt }: Entry): Caller | null | undefined {
    const now = this.clock.now();
    if (now - queriedAt >= MAX_AGE_MS) return undefined;
    return expiresAt > now ? caller : null;
  }

  async #query(hashes: readonly string[]): Promise<void> {
    const queriedAt = this.clock.now();
    const found = await withTimeout(MAX_AGE_MS, this.keys.findUsable(hashes), null);
    if (found === null) throw new KeyCheckTooSlow();
    const usable = new Map(found.map((key) => [key.hash, key]));
    for (const hash of hashes) {
      const newest = this.#entryOf(hash);
      // A revocation may be newer.
      if (newest === undefined || newest.queriedAt < queriedAt) {
        this.#store(hash, toEntry(usable.get(hash), queriedAt));
      }
    }
  }

  #store(hash: string, entry: Entry): void {
    this.#valid.delete(hash);
    this.#invalid.delete(hash);
    (entry.caller ? this.#valid : this.#invalid).set(hash, entry);
    if (entry.caller) this.#hashes.set(entry.caller, hash);
  }
}

function toEntry(key: UsableKey | undefined, queriedAt: number): Entry {
  if (!key) return { queriedAt, caller: null, expiresAt: Infinity };
  const { id, name, workerIds, workerTags, workerCapabilities, stores, expiresAt, expiresInMs } = key;
  const scopes = new Set(SCOPES.filter((scope) => key.scopes.includes(scope)));
  const caller = {
    id,
    keyId: id,
    name,
    scopes,
    workerIds,
    workerTags,
    workerCapabilities,
    stores,
    expiresAt,
  };
  return { queriedAt, caller, expiresAt: queriedAt + (expiresInMs ?? Infinity) };
}
