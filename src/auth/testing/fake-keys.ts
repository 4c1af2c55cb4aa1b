import { DataSource } from 'typeorm';
import { dataSourceOptions } from '../../database/data-source.js';
import { ApiKeyEntity } from '../../database/entities/api-key.entity.js';
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

/** Keys in memory: what a test puts into `usable` is what the database says, when the test lets it. */
export class FakeKeys extends ApiKeysRepository {
  readonly usable = new Map<string, UsableKey>();
  /** Hashes of each question so far. */
  readonly asked: (readonly string[])[] = [];
  /** Uses of each write so far. */
  readonly uses: ReadonlyMap<string, number>[] = [];
  /** What questions and writes fail with. */
  failure: Error | undefined;
  #held: (() => void)[] | undefined;

  constructor() {
    super(NO_DATABASE.getRepository(ApiKeyEntity));
  }

  /** A key that is good until it is taken out of `usable`. */
  add(hash: string, key: Partial<UsableKey> = {}): void {
    this.usable.set(hash, {
      hash,
      id: `id of ${hash}`,
      name: hash,
      scopes: ['client'],
      expiresAt: null,
      expiresInMs: null,
      ...key,
    });
  }

  /** From now on answers wait, with what was true when they were asked for. */
  hold(): void {
    this.#held = [];
  }

  /** Lets the answers go. */
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

  override hasUsable(): Promise<boolean> {
    return Promise.resolve(this.usable.size > 0);
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
