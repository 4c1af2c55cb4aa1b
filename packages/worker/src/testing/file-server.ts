import { createHash } from 'node:crypto';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** A request that a store has got. */
export interface StoreRequest {
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
}

/** What a store does instead of its own: a status, or nothing more after so many bytes of a content. */
export type StoreFault =
  | { readonly status: number; readonly headers?: http.OutgoingHttpHeaders }
  | { readonly breakAfter: number };

/** A store of files over HTTP, in memory. It takes just what a request announces. */
export class FileServer {
  /** By path. */
  readonly objects = new Map<string, Buffer>();
  readonly requests: StoreRequest[] = [];
  onRequest: (request: StoreRequest) => StoreFault | undefined = () => undefined;
  /** Until when it answers nothing. */
  held: Promise<unknown> = Promise.resolve();

  private constructor(private readonly server: http.Server) {}

  static async start(): Promise<FileServer> {
    const server = http.createServer();
    const store = new FileServer(server);
    server.on('request', (request, response) => {
      store.answer(request, response).catch(() => response.destroy());
    });
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return store;
  }

  /** The signed URL of an object. */
  urlOf(path: string): string {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a server that listens on a port
    const { port } = this.server.address() as AddressInfo;
    return `http://127.0.0.1:${port}${path}?expires=9999999999&signature=${sha256(path)}`;
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const received = { method, url, headers };
    this.requests.push(received);
    const fault = this.onRequest(received);
    await this.held;
    const path = new URL(url, 'http://store').pathname;
    if (fault !== undefined && 'status' in fault) {
      request.resume();
      response.writeHead(fault.status, fault.headers).end('<Error><Code>Fault</Code></Error>');
    } else if (method === 'PUT') {
      if (fault !== undefined) {
        request.destroy();
        return;
      }
      const content = await buffer(request);
      const isWhole = String(content.length) === headers['content-length'];
      if (isWhole) this.objects.set(path, content);
      response.writeHead(isWhole ? 200 : 400, { etag: `"${sha256(content).slice(0, 8)}"` }).end();
    } else this.give(path, headers, response, fault?.breakAfter);
  }

  private give(
    path: string,
    { range, 'if-range': condition }: http.IncomingHttpHeaders,
    response: ServerResponse,
    breakAfter?: number,
  ): void {
    const object = this.objects.get(path);
    if (object === undefined) {
      response.writeHead(404).end();
      return;
    }
    const etag = `"${sha256(object).slice(0, 8)}"`;
    const [, from] = /^bytes=(\d+)-$/.exec(range ?? '') ?? [];
    const isPart = from !== undefined && (condition === undefined || condition === etag);
    const start = isPart ? Number(from) : 0;
    const content = object.subarray(start);
    const partial = isPart && { 'content-range': `bytes ${start}-${object.length - 1}/${object.length}` };
    response.writeHead(isPart ? 206 : 200, { etag, 'content-length': content.length, ...partial });
    if (breakAfter === undefined) response.end(content);
    else response.write(content.subarray(0, breakAfter), () => setTimeout(() => response.destroy(), 20));
  }
}

export function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}
