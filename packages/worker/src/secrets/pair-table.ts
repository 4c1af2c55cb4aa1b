const FREE = 0;

/** A hash table of pairs of 32-bit integers, each with a positive integer. Its capacity is fixed. */
export class PairTable {
  private readonly keys: Int32Array;
  private readonly values: Int32Array;
  private readonly shift: number;

  /** @param most entries */
  constructor(most: number) {
    const bits = Math.max(4, Math.ceil(Math.log2(most * 4 + 1)));
    this.shift = 32 - bits;
    this.keys = new Int32Array(2 ** (bits + 1));
    this.values = new Int32Array(2 ** bits);
  }

  /** @returns 0 when there is no entry */
  get(a: number, b: number): number {
    return this.values[this.slotOf(a, b)] ?? FREE;
  }

  set(a: number, b: number, value: number): void {
    const slot = this.slotOf(a, b);
    this.keys[2 * slot] = a;
    this.keys[2 * slot + 1] = b;
    this.values[slot] = value;
  }

  /** The slot of the pair, or the free one that it would get. */
  private slotOf(a: number, b: number): number {
    const { keys, values, shift } = this;
    let slot = (Math.imul(Math.imul(a, 0x9e3779b1) ^ b, 0x85ebca6b) ^ a) >>> shift;
    while (values[slot] !== FREE && (keys[2 * slot] !== a || keys[2 * slot + 1] !== b))
      slot = slot + 1 === values.length ? 0 : slot + 1;
    return slot;
  }
}
