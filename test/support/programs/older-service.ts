import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Headers that a proxy does not pass on. */
const OF_CONNECTION = /^(?:connection|keep-alive|host|content-length|transfer-encoding)$/;

/** Passes requests on to a service, and takes `lost_ops` out of its answers to heartbeats, as of a version without them. */
export class OlderService {
  private constructor(
    readonly url: string,
    readonly close: () => void,
  ) {}

  static async start(serviceUrl: string): Promise<OlderService> {
    const server = createServer((request, response) => {
      const pass = async (): Promise<void> => {
        const chunks: Uint8Array[] = [];
        for await (const chunk of request) chunks.push(chunk);
        const headers = new Headers();
        for (const [name, value] of Object.entries(request.headers)) {
          if (!OF_CONNECTION.test(name)) headers.set(name, String(value));
        }
        const { method = 'GET', url = '/' } = request;
        const body = chunks.length > 0 ? { body: Buffer.concat(chunks) } : {};
        const answer = await fetch(`${serviceUrl}${url}`, { method, headers, ...body });
        const text = await answer.text();
        const isHeartbeat = url.startsWith('/workers/heartbeat') && answer.ok;
        const shown = isHeartbeat ? withoutLostRuns(text) : text;
        for (const [name, value] of answer.headers) {
          if (!OF_CONNECTION.test(name)) response.setHeader(name, value);
        }
        response.statusCode = answer.status;
        response.end(shown);
      };
      // A worker that stands still has closed its request, or the service is gone.
      pass().catch(() => response.destroy());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port }: AddressInfo = Object(server.address());
    const close = (): void => {
      server.close();
      server.closeAllConnections();
    };
    return new OlderService(`http://127.0.0.1:${port}`, close);
  }
}

function withoutLostRuns(text: string): string {
  const { lost_ops: _, ...worker } = JSON.parse(text);
  return JSON.stringify(worker);
}
