/** UTF-16 units of one text after another, in the same memory: reading an array takes a fraction of the time of `charCodeAt`. */
export class UnitBuffer {
  private units = new Uint16Array(0);
  private bytes = Buffer.from(this.units.buffer);

  /** The units of the text, and others behind them. Valid until the next call. */
  of(text: string): Uint16Array {
    const units = this.ofLength(text.length);
    this.bytes.write(text, 'utf16le');
    return units;
  }

  /** Room for so many units. What is there of an earlier text is overwritten. */
  ofLength(length: number): Uint16Array {
    if (this.units.length < length) {
      this.units = new Uint16Array(Math.max(length, 2 * this.units.length));
      this.bytes = Buffer.from(this.units.buffer);
    }
    return this.units;
  }

  /** A text of the first units, which it overwrites. @param bits those that are set in any of the units */
  text(length: number, bits: number): string {
    const { units, bytes } = this;
    if (bits > 0xff) return bytes.toString('utf16le', 0, 2 * length);
    // Half of the memory.
    for (let at = 0; at < length; at++) bytes[at] = Number(units[at]);
    return bytes.toString('latin1', 0, length);
  }
}
