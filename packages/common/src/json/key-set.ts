// Below this many keys, comparing one by one beats hashing.
const FEW = 8;

/** The keys seen so far in one object, made to be emptied and used again. */
export class KeySet {
  private readonly few: string[] = [];
  private many: Set<string> | undefined;

  /** Takes a key; false when it was there already. */
  add(key: string): boolean {
    if (this.many !== undefined) {
      const before = this.many.size;
      return this.many.add(key).size > before;
    }
    for (const seen of this.few) if (seen === key) return false;
    this.few.push(key);
    if (this.few.length === FEW) this.many = new Set(this.few);
    return true;
  }

  clear(): void {
    this.few.length = 0;
    this.many = undefined;
  }
}
