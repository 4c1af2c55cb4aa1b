import type { ServerResponse } from 'node:http';

/**
 * Bounds the bytes of responses that are sent and that their clients have not read. Above the bound the connections of
 * the oldest ones are closed: a client that reads does not stay among them for long.
 */
export class UnreadResponses {
  /** Unread bytes by response, the oldest response first. */
  readonly #bytes = new Map<ServerResponse, number>();
  /** Responses whose end, and whose becoming empty, are noticed. */
  readonly #followed = new WeakSet<ServerResponse>();
  #total = 0;

  /** @param onCut called for each connection that is closed */
  constructor(
    private readonly maxBytes: number,
    private readonly onCut: () => void,
  ) {}

  get bytes(): number {
    return this.#total;
  }

  /** Call it after a write that the client has not taken at once. */
  note(response: ServerResponse): void {
    if (response.req.socket.destroyed) return;
    const bytes = response.writableLength;
    const before = this.#bytes.get(response);
    if (!this.#followed.has(response)) {
      this.#followed.add(response);
      const forget = (): void => this.#forget(response);
      response.once('close', forget).on('drain', forget);
    }
    this.#bytes.set(response, bytes);
    this.#total += bytes - (before ?? 0);
    // The newest may exceed the bound alone.
    while (this.#total > this.maxBytes && this.#bytes.size > 1) this.#cutOldest();
  }

  #cutOldest(): void {
    const [oldest] = this.#bytes.keys();
    if (oldest === undefined) return;
    this.#forget(oldest);
    this.onCut();
    oldest.req.socket.destroy();
  }

  #forget(response: ServerResponse): void {
    this.#total -= this.#bytes.get(response) ?? 0;
    this.#bytes.delete(response);
  }
}
