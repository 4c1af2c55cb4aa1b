import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/**
 * Holds the service's port while no server process listens, so that no other program takes it. Closes connections at
 * once. Calls run one after the other.
 */
export class PortReservation {
  #server: Server | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** @param port 0 takes a free port at the first `hold` and keeps its number */
  constructor(
    private readonly host: string,
    private port: number,
  ) {}

  /** Takes the port, unless it is held. @returns its number. @throws the system's error */
  hold(): Promise<number> {
    return this.#enqueue(async () => {
      if (this.#server !== undefined) return this.port;
      const server = createServer((socket) => socket.destroy()).listen(this.port, this.host);
      await once(server, 'listening');
      const address = server.address();
      if (typeof address === 'object' && address !== null) this.port = address.port;
      this.#server = server;
      return this.port;
    });
  }

  release(): Promise<void> {
    return this.#enqueue(async () => {
      const server = this.#server;
      this.#server = undefined;
      if (server === undefined) return;
      server.close();
      await once(server, 'close');
    });
  }

  #enqueue<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#last.then(action);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
