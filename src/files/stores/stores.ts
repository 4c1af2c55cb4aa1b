import { Injectable } from '@nestjs/common';
import type { Clock } from '../../common/clock.js';
import { parseNamedStores, type StoreMode } from '../../config/file-stores.js';
import type { Settings } from '../../config/settings.js';
import type { FileStore } from './file-store.js';
import { FolderStore } from './folder-store.js';
import { openBucket, openStore } from './open-store.js';
import { FilesNotConfigured } from '../../common/errors/domain-error.js';

export interface NamedStore {
  readonly store: FileStore;
  readonly mode: StoreMode;
}

/** The stores of the settings. */
@Injectable()
export class Stores {
  /** @param main null: SERVICE_FILES_URL is `none`, and there are no stores by name either */
  constructor(
    readonly main: FileStore | null,
    private readonly byName: ReadonlyMap<string, NamedStore>,
  ) {}

  static async open(settings: Settings, clock: Pick<Clock, 'epochMs'>): Promise<Stores> {
    const main = await openStore(settings, clock);
    const named =
      main === null || settings.filesStores === undefined ? [] : parseNamedStores(settings.filesStores);
    const entries = named.map(({ name, address, mode, credentialsFile }) => {
      const store = openBucket(address, settings, credentialsFile);
      return [name, { store, mode }] as const;
    });
    return new Stores(main, new Map(entries));
  }

  /** The main store if it is a folder, which the service serves itself. */
  get folder(): FolderStore | null {
    return this.main instanceof FolderStore ? this.main : null;
  }

  /** @throws FilesNotConfigured */
  required(): FileStore {
    if (this.main === null) throw new FilesNotConfigured();
    return this.main;
  }

  named(name: string): NamedStore | undefined {
    return this.byName.get(name);
  }

  /** Names of the stores by name, in the order of the alphabet. */
  names(): string[] {
    return [...this.byName.keys()].toSorted();
  }
}
