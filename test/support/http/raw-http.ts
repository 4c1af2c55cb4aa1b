import { connect } from 'node:net';
import type { Socket } from 'node:net';

/** One answer as it stood on the wire. */
export interface RawAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Longest wait for something that is to happen within milliseconds, for a machine that is busy. */
const PATIENCE_MS = 120_000;

const HEAD_END = Buffer.from('\r\n\r\n');

/** A connection to a server of this machine, for requests that no HTTP client would send. */
export class RawConnection {
  private received = Buffer.alloc(0);
  private ended = false;
  private wake: () => void = () => {};

  private constructor(private readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.received = Buffer.concat([this.received, chunk]);
      this.wake();
    });
    const end = (): void => {
      this.ended = true;
      this.wake();
    };
    socket.on('end', end).on('close', end).on('error', end);
  }

  static async open(port: number): Promise<RawConnection> {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    await new Promise((resolve, reject) => {
      socket.once('connect', resolve).once('error', reject);
    });
    return new RawConnection(socket);
  }

  /** Whether the server still keeps its side open. */
  get isOpen(): boolean {
    return !this.ended;
  }

  /** Writes text (as UTF-8) or bytes. */
  send(data: string | Uint8Array): this {
    this.socket.write(data);
    return this;
  }

  /** Says that nothing more will be sent. */
  finish(): this {
    this.socket.end();
    return this;
  }

  /** The next answer. `Content-Length` decides its end; `head` for answers to HEAD. */
  async next({ head = false, timeoutMs = PATIENCE_MS } = {}): Promise<RawAnswer> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const answer = this.take(head);
      if (answer !== undefined) return answer;
      if (this.ended) throw new Error(`connection ended; got ${JSON.stringify(this.received.toString())}`);
      await this.waitUntil(deadline, 'no answer');
    }
  }

  /** Resolves when the server has closed the connection; gives what it sent that was not read yet. */
  async closed(timeoutMs = PATIENCE_MS): Promise<string> {
    const deadline = performance.now() + timeoutMs;
    while (!this.ended) await this.waitUntil(deadline, 'connection still open');
    return this.received.toString();
  }

  /** Resolves when what was sent and not read yet has the text. */
  async has(text: string, timeoutMs = PATIENCE_MS): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    while (!this.received.includes(text)) await this.waitUntil(deadline, `nobody sent ${text}`);
  }

  /** Breaks the connection off. */
  destroy(): void {
    this.socket.destroy();
  }

  private waitUntil(deadline: number, problem: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(problem)), deadline - performance.now());
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private take(head: boolean): RawAnswer | undefined {
    const end = this.received.indexOf(HEAD_END);
    if (end < 0) return undefined;
    const [statusLine = '', ...lines] = this.received.subarray(0, end).toString('latin1').split('\r\n');
    const headers = Object.fromEntries(
      lines.map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
      }),
    );
    const status = Number(statusLine.split(' ')[1]);
    const length = head || status < 200 ? 0 : Number(headers['content-length'] ?? 0);
    const start = end + HEAD_END.length;
    if (this.received.length < start + length) return undefined;
    const body = this.received.subarray(start, start + length).toString();
    this.received = this.received.subarray(start + length);
    return { status, headers, body };
  }
}

/** A request's text. A `Host` header, and for a body its length, are added. */
export function requestText(
  method: string,
  target: string,
  headers: Readonly<Record<string, string>> = {},
  body = '',
): string {
  const all = {
    Host: 'test',
    ...(body === '' ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `${[`${method} ${target} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n${body}`;
}
