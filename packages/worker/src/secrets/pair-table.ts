const FREE = 0;

/** Numbers of a slot: both keys, the value, and one that is not used. A slot is in one line of a processor's cache. */
const STRIDE = 4;

/** A hash table of pairs of 32-bit integers, each with a positive integer. Its capacity is fixed. */
export class PairTable {
  private readonly slots: Int32Array;
  private readonly shift: number;

  /** @param most entries */
  constructor(most: number) {
    const bits = Math.max(4, Math.ceil(Math.log2(most * 2 + 1)));
    this.shift = 32 - bits;
    this.slots = new Int32Array(STRIDE * 2 ** bits);
  }

  /** @returns 0 when there is no entry */
  get(a: number, b: number): number {
    return this.slots[this.slotOf(a, b) + 2] ?? FREE;
  }

  set(a: number, b: number, value: number): void {
    const slot = this.slotOf(a, b);
    this.slots[slot] = a;
    this.slots[slot + 1] = b;
    this.slots[slot + 2] = value;
  }

  /** The slot of the pair, or the free one that it would get. */
  private slotOf(a: number, b: number): number {
    const { slots, shift } = this;
    let slot = STRIDE * ((Math.imul(Math.imul(a, 0x9e3779b1) ^ b, 0x85ebca6b) ^ a) >>> shift);
    while (slots[slot + 2] !== FREE && (slots[slot] !== a || slots[slot + 1] !== b))
      slot = slot + STRIDE === slots.length ? 0 : slot + STRIDE;
    return slot;
  }
}
