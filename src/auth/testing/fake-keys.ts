import { DataSource } from 'typeorm';
import { dataSourceOptions } from '../../database/data-source.js';
import type { ApiKeySetting } from '../../config/key-settings.js';
import { ApiKeyEntity } from '../../database/entities/security.entity.js';
import { ApiKeysRepository, type UsableKey } from '../api-keys.repository.js';

/** A data source that was never connected. */
const NO_DATABASE = new DataSource(
  dataSourceOptions({
    url: 'postgres://nowhere',
    poolSize: 1,
    applicationName: 'none',
    entities: [],
    migrations: [],
  }),
);

/** Keys in memory; a test can delay the results. */
export class FakeKeys extends ApiKeysRepository {
  readonly usable = new Map<string, UsableKey>();
  /** Hashes of each query so far. */
  readonly asked: (readonly string[])[] = [];
  /** Uses of each write so far. */
  readonly uses: ReadonlyMap<string, number>[] = [];
  /** The error of queries and writes. */
  failure: Error | undefined;
  #held: (() => void)[] | undefined;

  constructor() {
    super(NO_DATABASE.getRepository(ApiKeyEntity));
  }

  /** Adds a valid key. */
  add(hash: string, key: Partial<UsableKey> = {}): void {
    this.usable.set(hash, {
      hash,
      id: `id of ${hash}`,
      name: hash,
      scopes: ['client'],
      workerIds: null,
      workerTags: null,
      workerCapabilities: null,
      stores: null,
      expiresAt: null,
      expiresInMs: null,
      ...key,
    });
  }

  /** Delays results until `release`. */
  hold(): void {
    this.#held = [];
  }

  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const go of held) go();
  }

  override async findUsable(hashes: readonly string[]): Promise<UsableKey[]> {
    this.asked.push(hashes);
    const found = hashes.flatMap((hash) => this.usable.get(hash) ?? []);
    await this.#turn();
    return found;
  }

  override hasUsable(scope?: ApiKeySetting['scope']): Promise<boolean> {
    const found = [...this.usable.values()].some(
      ({ scopes }) => scope === undefined || scopes.includes(scope),
    );
    return Promise.resolve(found);
  }

  override async noteUses(uses: ReadonlyMap<string, number>): Promise<void> {
    this.uses.push(uses);
    await this.#turn();
  }

  async #turn(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (this.#held) this.#held.push(resolve);
      else setImmediate(resolve);
    });
    if (this.failure) throw this.failure;
  }
}
