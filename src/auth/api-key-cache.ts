import { Injectable } from '@nestjs/common';
import { SCOPES, type Caller } from './access.js';
import { ApiKeysRepository, type UsableKey } from './api-keys.repository.js';
import { KeyCheckTooSlow } from './auth.errors.js';
import { MonotonicClock } from './monotonic-clock.js';

/**
 * How long an answer of the database about a key is believed, in milliseconds, counted from the moment of asking.
 * It bounds how long a process goes on taking a key that another one revoked: no answer is ever used later than that.
 */
export const BELIEVED_MS = 3_000;

/** Entries kept of keys that are good, and as many again of keys that are not. */
const MOST_ENTRIES = 10_000;

/** Hashes that one statement asks about. */
const MOST_AT_ONCE = 500;

/** What the database said about a key. */
interface Verdict {
  readonly askedAt: number;
  /** Null for a key that is unknown, revoked or expired. */
  readonly caller: Caller | null;
  /** When the key expires. */
  readonly endsAt: number;
}

/** What one statement said. */
interface Answer {
  readonly askedAt: number;
  readonly usable: ReadonlyMap<string, UsableKey>;
}

/** Hashes that one statement asks about. */
interface Batch {
  readonly hashes: Set<string>;
  readonly answer: Promise<Answer>;
}

/** A map that drops its oldest entry when it would outgrow its bound. */
class BoundedCache<V> {
  readonly #entries = new Map<string, V>();

  /** @param most entries kept, at least 1 */
  constructor(private readonly most: number) {}

  get(key: string): V | undefined {
    return this.#entries.get(key);
  }

  /** Adds the entry as the youngest. */
  set(key: string, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.most) return;
    const oldest = this.#entries.keys().next();
    if (oldest.done !== true) this.#entries.delete(oldest.value);
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }
}

/**
 * What this process knows about the keys in the database. Verdicts are kept for a short while, good and bad ones
 * apart, so that a flood of wrong keys displaces no right one. What is not known is asked: one statement at a time,
 * about everything that has come up since the one before, so that no flood takes the connections away from the rest.
 */
@Injectable()
export class StoredKeys {
  readonly #good = new BoundedCache<Verdict>(MOST_ENTRIES);
  readonly #bad = new BoundedCache<Verdict>(MOST_ENTRIES);
  /** Hash of the key by which each caller was found. */
  readonly #hashes = new WeakMap<Caller, string>();
  /** By each hash whose answer is outstanding. */
  readonly #outstanding = new Map<string, Batch>();
  #filling: Batch | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly keys: ApiKeysRepository,
    private readonly clock: MonotonicClock,
  ) {}

  /**
   * The caller that the key with this hash belongs to, or null when there is none or the key is no longer good.
   * @throws whatever the database fails with; KeyCheckTooSlow when it does not answer
   */
  async find(hash: string): Promise<Caller | null> {
    const known = this.findKnown(hash);
    if (known !== undefined) return known;
    const verdict = await this.#ask(hash);
    const now = this.clock.now();
    if (now - verdict.askedAt >= BELIEVED_MS) throw new KeyCheckTooSlow();
    return verdict.endsAt > now ? verdict.caller : null;
  }

  /** The same without asking: undefined when there is no answer that is still believed. */
  findKnown(hash: string): Caller | null | undefined {
    const verdict = this.#known(hash);
    if (verdict === undefined) return undefined;
    const now = this.clock.now();
    if (now - verdict.askedAt >= BELIEVED_MS) return undefined;
    return verdict.endsAt > now ? verdict.caller : null;
  }

  /** Whether the database was asked about this hash before, as far as that is remembered. */
  hasMet(hash: string): boolean {
    return this.#known(hash) !== undefined;
  }

  /** Whether the caller was found here, by a key that can be revoked. */
  knows(caller: Caller): boolean {
    return this.#hashes.has(caller);
  }

  /** Whether the key by which the caller was found is still good. @throws as `find` */
  async isStillGood(caller: Caller): Promise<boolean> {
    const hash = this.#hashes.get(caller);
    return hash === undefined || (await this.find(hash)) !== null;
  }

  /** Takes note that the key with this hash was revoked just now; answers that are under way do not count. */
  revoked(hash: string): void {
    this.#keep(hash, { askedAt: this.clock.now(), caller: null, endsAt: Infinity });
  }

  #known(hash: string): Verdict | undefined {
    return this.#good.get(hash) ?? this.#bad.get(hash);
  }

  #keep(hash: string, verdict: Verdict): void {
    const [home, other] = verdict.caller ? [this.#good, this.#bad] : [this.#bad, this.#good];
    home.set(hash, verdict);
    if (verdict.caller) this.#hashes.set(verdict.caller, hash);
    other.delete(hash);
  }

  async #ask(hash: string): Promise<Verdict> {
    const batch = this.#outstanding.get(hash) ?? this.#join(hash);
    const { askedAt, usable } = await batch.answer;
    return this.#learn(hash, toVerdict(usable.get(hash), askedAt));
  }

  #join(hash: string): Batch {
    const batch = this.#filling && this.#filling.hashes.size < MOST_AT_ONCE ? this.#filling : this.#open();
    batch.hashes.add(hash);
    this.#outstanding.set(hash, batch);
    return batch;
  }

  /** Begins a batch that is asked about as soon as those before it are answered. */
  #open(): Batch {
    const hashes = new Set<string>();
    const answer = this.#turn.then(() => this.#answer(hashes));
    const batch: Batch = { hashes, answer };
    this.#turn = answer.then(
      () => this.#close(batch),
      () => this.#close(batch),
    );
    this.#filling = batch;
    return batch;
  }

  #close({ hashes }: Batch): void {
    for (const hash of hashes) this.#outstanding.delete(hash);
  }

  async #answer(hashes: ReadonlySet<string>): Promise<Answer> {
    if (this.#filling?.hashes === hashes) this.#filling = undefined;
    const askedAt = this.clock.now();
    const found = await inTime(this.keys.findUsable([...hashes]));
    return { askedAt, usable: new Map(found.map((key) => [key.hash, key])) };
  }

  /** Keeps the verdict unless something later is known; answers what is known then. */
  #learn(hash: string, verdict: Verdict): Verdict {
    const known = this.#known(hash);
    if (known && known.askedAt >= verdict.askedAt) return known;
    this.#keep(hash, verdict);
    return verdict;
  }
}

function toVerdict(key: UsableKey | undefined, askedAt: number): Verdict {
  if (!key) return { askedAt, caller: null, endsAt: Infinity };
  const { id, name, expiresAt, expiresInMs } = key;
  const scopes = new Set(SCOPES.filter((scope) => key.scopes.includes(scope)));
  return { askedAt, caller: { id, name, scopes, expiresAt }, endsAt: askedAt + (expiresInMs ?? Infinity) };
}

/** @throws KeyCheckTooSlow when the answer would be too old to be believed */
async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const tooSlow = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new KeyCheckTooSlow()), BELIEVED_MS);
  });
  try {
    return await Promise.race([work, tooSlow]);
  } finally {
    clearTimeout(timer);
  }
}
