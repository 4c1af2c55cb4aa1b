import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';

/** What a program tells the other system. */
export interface Told {
  readonly id: string | undefined;
  // oxlint-disable-next-line typescript/no-explicit-any -- the body is JSON that the test looks into
  readonly told: any;
}

/** The system that a program of a page tells of ends: it is away at the first request, and does not answer the third. */
export class OtherSystem {
  /** Every request that has arrived whole. */
  readonly received: Told[] = [];

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {
    server.on('request', (request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<OtherSystem> {
    const server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    return new OtherSystem(server, `http://127.0.0.1:${port}/ends`);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const id = request.headers['idempotency-key'];
    this.received.push({ id: id?.toString(), told: await json(request) });
    if (this.received.length === 3) return;
    response.writeHead(this.received.length === 1 ? 503 : 204, { 'Retry-After': '1' }).end();
  }

  close(): void {
    this.server.close();
    this.server.closeAllConnections();
  }
}
