import { connect } from 'node:net';
import { AnswerReader } from './answer-reader.mjs';

/** No answer takes longer than this, in milliseconds: the longest wait that the API offers, and some. */
const SILENCE_MS = 120_000;

const READ_BYTES = 16 * 1024;

/**
 * One kept HTTP/1.1 connection that carries one request at a time. It knows no more of HTTP than the benchmarks need:
 * node:http costs the generator several times as much a request, on the very cores that it measures.
 */
export class HttpConnection {
  idleSince = 0;
  #socket;
  #reader = new AnswerReader();
  #waiting = null;
  #closed = false;
  #onClose;

  /** @param onClose called once, with this connection, when it can carry no further request */
  constructor(host, port, onClose) {
    this.#onClose = onClose;
    const buffer = Buffer.allocUnsafe(READ_BYTES);
    const callback = (length) => {
      this.#take(buffer.subarray(0, length));
      return true;
    };
    this.#socket = connect({ host, port, noDelay: true, onread: { buffer, callback } });
    this.#socket.setTimeout(SILENCE_MS, () =>
      this.close(new Error(`no answer within ${SILENCE_MS / 1000} s`)),
    );
    this.#socket.on('error', (error) => this.close(error));
    this.#socket.on('end', () => this.#end());
    this.#socket.on('close', () => this.#end());
  }

  get closed() {
    return this.#closed;
  }

  /**
   * Sends a request that is already text and resolves with its answer, `{ status, text(), header(name) }`.
   * @param encoding of the text; `latin1` is the cheapest one for what is ASCII
   * @throws Error when the connection breaks before the answer is whole
   */
  exchange(text, encoding) {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
      this.#socket.write(text, encoding);
    });
  }

  /** Ends the connection; a request under way fails with the error. */
  close(error = new Error('the connection was closed')) {
    if (this.#closed) return;
    this.#closed = true;
    this.#socket.destroy();
    const waiting = this.#waiting;
    this.#waiting = null;
    this.#onClose(this);
    waiting?.reject(error);
  }

  #take(bytes) {
    if (this.#waiting === null) return this.close();
    try {
      const answer = this.#reader.push(bytes);
      if (answer !== null) this.#settle(answer);
    } catch (error) {
      this.close(error);
    }
  }

  #settle(answer) {
    const { resolve } = this.#waiting;
    this.#waiting = null;
    if (!answer.keepsAlive) this.close();
    resolve(answer);
  }

  #end() {
    if (this.#closed) return;
    const answer = this.#waiting === null ? null : this.#reader.end();
    if (answer !== null) this.#settle(answer);
    else this.close(new Error('the server closed the connection before its answer was whole'));
  }
}
