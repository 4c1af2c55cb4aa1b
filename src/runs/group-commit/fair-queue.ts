/** A queued item: who it belongs to, and how large it is. */
export interface FairItem {
  readonly owner: string;
  readonly bytes: number;
}

interface Owner<T> {
  readonly name: string;
  readonly items: T[];
  bytes: number;
  /** Bytes that it may still take in this turn; negative after an item that was larger. */
  credit: number;
}

/** What an item costs in addition to its bytes. */
const COST_OF_AN_ITEM = 1024;

/** Bytes that an owner may take in each turn. */
const CREDIT_PER_TURN = 4 * 1024;

/**
 * A queue that serves its owners in turn, each with the same share of bytes (deficit round robin): an owner with many or
 * large items does not delay the others. Items of one owner keep their order.
 */
export class FairQueue<T extends FairItem> {
  readonly #owners = new Map<string, Owner<T>>();
  /** The owners with items, in the order of their turns. */
  readonly #turns: Owner<T>[] = [];
  #current = 0;
  #size = 0;
  #bytes = 0;

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Number and bytes of an owner's items. */
  of(owner: string): { readonly size: number; readonly bytes: number } {
    const found = this.#owners.get(owner);
    return { size: found?.items.length ?? 0, bytes: found?.bytes ?? 0 };
  }

  push(item: T): void {
    let owner = this.#owners.get(item.owner);
    if (owner === undefined) {
      owner = { name: item.owner, items: [], bytes: 0, credit: CREDIT_PER_TURN };
      this.#owners.set(item.owner, owner);
      this.#turns.push(owner);
    }
    owner.items.push(item);
    owner.bytes += item.bytes;
    this.#size += 1;
    this.#bytes += item.bytes;
  }

  /** The next item, which stays in the queue. */
  peek(): T | undefined {
    return this.#owner()?.items[0];
  }

  /** Removes the next item. */
  take(): T | undefined {
    const owner = this.#owner();
    const item = owner?.items.shift();
    if (owner === undefined || item === undefined) return undefined;
    owner.bytes -= item.bytes;
    owner.credit -= item.bytes + COST_OF_AN_ITEM;
    this.#size -= 1;
    this.#bytes -= item.bytes;
    if (owner.items.length === 0) {
      this.#owners.delete(owner.name);
      this.#turns.splice(this.#current, 1);
    }
    return item;
  }

  /** Removes all items. */
  clear(): T[] {
    const items = this.#turns.flatMap((owner) => owner.items);
    this.#owners.clear();
    this.#turns.length = 0;
    this.#size = 0;
    this.#bytes = 0;
    return items;
  }

  /** The owner whose turn it is. */
  #owner(): Owner<T> | undefined {
    const [only] = this.#turns;
    if (only !== undefined && this.#turns.length === 1) {
      // It takes nothing from others.
      only.credit = CREDIT_PER_TURN;
      this.#current = 0;
      return only;
    }
    for (;;) {
      if (this.#current >= this.#turns.length) this.#current = 0;
      const owner = this.#turns[this.#current];
      if (owner === undefined || owner.credit > 0) return owner;
      owner.credit += CREDIT_PER_TURN;
      this.#current += 1;
    }
  }
}
