import { ChunkedBody } from './chunked-body.mjs';

const HEAD_END = Buffer.from('\r\n\r\n');
const HEAD_LIMIT = 64 * 1024;
const NOTHING = Buffer.alloc(0);

/**
 * Puts the answers of one connection together from the bytes that arrive, one answer after the other. The bytes given
 * to it may be overwritten afterwards: it keeps copies.
 */
export class AnswerReader {
  #head = null;
  #pieces = [];
  #missing = 0;
  #chunked = null;

  /**
   * @returns the answer when these bytes complete it, null otherwise
   * @throws Error when the bytes are no HTTP/1.1 answer, or more than one
   */
  push(bytes) {
    return this.#head === null ? this.#readHead(bytes) : this.#readBody(bytes);
  }

  /** @returns the answer when it ends with the connection, null when there is none or a part is missing */
  end() {
    return this.#head !== null && this.#missing === Number.POSITIVE_INFINITY && this.#chunked === null
      ? this.#finish()
      : null;
  }

  #readHead(bytes) {
    const all = this.#pieces.length === 0 ? bytes : Buffer.concat([...this.#pieces, bytes]);
    const end = all.indexOf(HEAD_END);
    if (end < 0) {
      if (all.length > HEAD_LIMIT) throw new Error('the head of the answer does not end');
      this.#pieces = [Buffer.from(all)];
      return null;
    }
    this.#pieces = [];
    const text = all.latin1Slice(0, end);
    const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(text) ?? [];
    if (status === undefined) throw new Error(`no HTTP/1.1 answer: ${text.slice(0, 100)}`);
    const rest = all.subarray(end + HEAD_END.length);
    // 100 Continue and the like announce the answer that follows.
    if (status < 200) return rest.length === 0 ? null : this.#readHead(rest);
    this.#head = { status: Number(status), text };
    this.#expectBody(text, Number(status));
    return this.#readBody(rest);
  }

  #expectBody(text, status) {
    this.#chunked = null;
    if (status === 204 || status === 304) {
      this.#missing = 0;
      return;
    }
    const [, length] = /\r\ncontent-length: *(\d+)/i.exec(text) ?? [];
    this.#missing = length === undefined ? Number.POSITIVE_INFINITY : Number(length);
    if (length === undefined && /\r\ntransfer-encoding: *chunked/i.test(text))
      this.#chunked = new ChunkedBody();
  }

  #readBody(bytes) {
    if (this.#chunked !== null) {
      if (!this.#chunked.push(bytes)) return null;
      this.#pieces = this.#chunked.pieces;
      return this.#finish();
    }
    if (bytes.length > this.#missing) throw new Error('the server sent more than one answer');
    if (bytes.length > 0) this.#pieces.push(Buffer.from(bytes));
    this.#missing -= bytes.length;
    return this.#missing === 0 ? this.#finish() : null;
  }

  #finish() {
    const { status, text: head } = this.#head;
    const pieces = this.#pieces;
    const keepsAlive =
      (this.#chunked !== null || this.#missing === 0) && !/\r\nconnection: *close/i.test(head);
    this.#head = null;
    this.#pieces = [];
    this.#chunked = null;
    const bytes = () => bytesOf(pieces);
    return {
      status,
      keepsAlive,
      header: (name) => headerOf(head, name),
      bytes,
      text: () => bytes().toString(),
    };
  }
}

function headerOf(head, name) {
  const line = head.split('\r\n').find((text) => text.toLowerCase().startsWith(`${name.toLowerCase()}:`));
  return line?.slice(name.length + 1).trim();
}

function bytesOf(pieces) {
  if (pieces.length === 1) return pieces[0];
  return pieces.length === 0 ? NOTHING : Buffer.concat(pieces);
}
