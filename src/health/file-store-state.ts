import { Injectable } from '@nestjs/common';

/** `off`: there is no store. */
export const FILE_STORE_STATES = ['off', 'ok', 'failing'] as const;

/** What the last probe of the store of files said. */
export interface FileStoreHealth {
  readonly state: (typeof FILE_STORE_STATES)[number];
  /** Since when the state is this one; null for `off`. */
  readonly since: Date | null;
  /** Why it fails; null unless it does. */
  readonly detail: string | null;
}

/** Whether this process can use the store of files. The health of the service does not depend on it. */
@Injectable()
export class FileStoreState {
  #health: FileStoreHealth = { state: 'off', since: null, detail: null };

  get health(): FileStoreHealth {
    return this.#health;
  }

  /** @param detail null: the store can be used @returns whether that has changed */
  set(detail: string | null, at: Date): boolean {
    const state = detail === null ? 'ok' : 'failing';
    const hasChanged = state !== this.#health.state;
    this.#health = { state, since: hasChanged ? at : this.#health.since, detail };
    return hasChanged;
  }
}
