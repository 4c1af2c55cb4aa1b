import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';

/**
 * Keeps the service's port while no server process listens there, so that no other program is given it meanwhile.
 * Whoever connects then is turned away at once.
 */
export class PortKeeper {
  #holder: Server | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  /** @param port 0 takes a free one at the first `hold` and stays with it */
  constructor(
    private readonly host: string,
    private port: number,
  ) {}

  /**
   * Takes the port, unless it is held already.
   * @returns its number
   * @throws the system's error when it cannot be had
   */
  hold(): Promise<number> {
    return this.#inTurn(async () => {
      if (this.#holder !== undefined) return this.port;
      const holder = createServer((socket) => socket.destroy()).listen(this.port, this.host);
      await once(holder, 'listening');
      const address: AddressInfo | string | null = holder.address();
      if (typeof address === 'object' && address !== null) this.port = address.port;
      this.#holder = holder;
      return this.port;
    });
  }

  /** Leaves the port to a server process. */
  release(): Promise<void> {
    return this.#inTurn(async () => {
      const holder = this.#holder;
      this.#holder = undefined;
      if (holder === undefined) return;
      holder.close();
      await once(holder, 'close');
    });
  }

  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(action);
    this.#turn = result.catch(() => undefined);
    return result;
  }
}
