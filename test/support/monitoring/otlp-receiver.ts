import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { decodeSpans, type ReceivedSpan } from './otlp-decode.js';

const PATIENCE_MS = 120_000;

/** How a collector answers: takes the spans, refuses them with a status, or never answers. */
export type Manner = 'takes' | 'hangs' | { readonly status: number };

/** A collector that takes traces by OTLP over HTTP. */
export class OtlpReceiver {
  /** Spans received so far, in order of arrival. */
  readonly spans: ReceivedSpan[] = [];
  /** Headers of the requests received so far. */
  readonly headers: IncomingMessage['headers'][] = [];
  manner: Manner = 'takes';

  private constructor(private readonly server: Server) {
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      void this.#take(request, response);
    });
  }

  /** Starts one on a free port. */
  static async start(): Promise<OtlpReceiver> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new OtlpReceiver(server);
  }

  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  get url(): string {
    const address: AddressInfo | string | null = this.server.address();
    assert.ok(typeof address === 'object' && address !== null);
    return `http://127.0.0.1:${address.port}`;
  }

  /** What a program is told so that its spans come here soon. */
  get env(): Record<string, string> {
    return { OTEL_EXPORTER_OTLP_ENDPOINT: this.url, OTEL_BSP_SCHEDULE_DELAY: '50' };
  }

  named(name: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  /** Waits until a span has arrived that the question is true for. */
  async find(what: string, isIt: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      const found = this.spans.find(isIt);
      if (found) return found;
      const names = [...new Set(this.spans.map(({ name }) => name))].join(', ');
      assert.ok(performance.now() < deadline, `no span ${what} arrived; there are: ${names}`);
      await sleep(10);
    }
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    this.headers.push(request.headers);
    if (this.manner === 'hangs') return;
    if (typeof this.manner === 'object') {
      response.writeHead(this.manner.status).end();
      return;
    }
    assert.equal(request.url, '/v1/traces');
    this.spans.push(...decodeSpans(request.headers['content-type'] ?? '', Buffer.concat(parts)));
    response.writeHead(200, { 'Content-Type': request.headers['content-type'] }).end();
  }
}
