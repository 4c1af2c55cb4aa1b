const LINE_LIMIT = 1024;

/** A body in chunks, put together from the bytes that arrive. */
export class ChunkedBody {
  /** Copies of the content that has come so far. */
  pieces = [];
  #line = '';
  #missing = 0;
  #part = 'size';

  /**
   * @returns whether the body is whole
   * @throws Error when the bytes are no chunks, or go on behind the last one
   */
  push(bytes) {
    for (let at = 0; at < bytes.length;) {
      if (this.#part === 'over') throw new Error('the server sent more than one answer');
      at = this.#part === 'data' ? this.#takeData(bytes, at) : this.#takeLine(bytes, at);
    }
    return this.#part === 'over';
  }

  #takeData(bytes, at) {
    const end = Math.min(bytes.length, at + this.#missing);
    this.pieces.push(Buffer.from(bytes.subarray(at, end)));
    this.#missing -= end - at;
    if (this.#missing === 0) this.#part = 'gap';
    return end;
  }

  #takeLine(bytes, at) {
    const feed = bytes.indexOf(10, at);
    const end = feed < 0 ? bytes.length : feed + 1;
    this.#line += bytes.latin1Slice(at, end);
    if (this.#line.length > LINE_LIMIT) throw new Error('a line between chunks does not end');
    if (feed < 0) return end;
    const line = this.#line.trimEnd();
    this.#line = '';
    if (this.#part === 'size') {
      this.#missing = Number.parseInt(line, 16);
      if (!/^[0-9a-f]+ *(;|$)/i.test(line)) throw new Error(`'${line}' is no size of a chunk`);
      this.#part = this.#missing === 0 ? 'trailer' : 'data';
    } else if (this.#part === 'gap') this.#part = 'size';
    else if (line === '') this.#part = 'over';
    return end;
  }
}
