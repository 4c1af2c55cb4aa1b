import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { KubernetesApi } from '../kubernetes/api/kubernetes-api.js';

export interface ScriptedCall {
  /** Method and path, such as `GET /api/v1/nodes`. */
  readonly route: string;
  readonly query: Readonly<Record<string, string>>;
  readonly type: string | undefined;
  readonly body: unknown;
}

/** Answers a call; `status` and `body` for a short one. */
type Answer =
  | { readonly status?: number; readonly body: object }
  | ((response: ServerResponse, call: ScriptedCall) => void);

/** An HTTP server that answers as a spec says. */
export class ScriptedApi {
  readonly calls: ScriptedCall[] = [];
  private readonly script = new Map<string, Answer[]>();
  private readonly server: Server = createServer((request, response) => void this.receive(request, response));
  private address = '';

  /** For the tests of a suite, each of which begins without answers. */
  static forEachTest(): ScriptedApi {
    const scripted = new ScriptedApi();
    beforeAll(() => scripted.start());
    beforeEach(() => {
      scripted.calls.length = 0;
      scripted.script.clear();
    });
    afterEach(() => scripted.server.closeAllConnections());
    afterAll(() => void scripted.server.close());
    return scripted;
  }

  /** A connection to it. */
  get api(): KubernetesApi {
    const cluster = { name: 'c', server: this.address, skipTLSVerify: true };
    const config = new KubeConfig();
    config.loadFromClusterAndUser(cluster, { name: 'u', token: 'tok' });
    return new KubernetesApi(config, this.address);
  }

  /** Answers the next calls of a route in this order, and the last one for ever. */
  on(route: string, ...answers: readonly [Answer, ...Answer[]]): void {
    this.script.set(route, [...answers]);
  }

  routes(): string[] {
    return this.calls.map(({ route }) => route);
  }

  private async start(): Promise<void> {
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    const address: AddressInfo | string | null = this.server.address();
    this.address = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  }

  private async receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', 'http://api');
    const type = request.headers['content-type'];
    const body: unknown = type === undefined ? null : await json(request);
    const route = `${request.method ?? ''} ${url.pathname}`;
    this.answer(response, { route, query: Object.fromEntries(url.searchParams), type, body });
  }

  private answer(response: ServerResponse, call: ScriptedCall): void {
    this.calls.push(call);
    const answers = this.script.get(call.route) ?? [];
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (typeof answer === 'function') answer(response, call);
    else if (answer === undefined)
      send(response, 404, { kind: 'Status', reason: 'NotFound', message: 'not found' });
    else send(response, answer.status ?? 200, answer.body);
  }
}

/** The body of an error. */
export function status(code: number, reason: string, message: string): { status: number; body: object } {
  return { status: code, body: { kind: 'Status', code, reason, message } };
}

function send(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
}
