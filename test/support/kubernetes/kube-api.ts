import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';

/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

/** An answer of an API server. */
export interface KubeAnswer {
  readonly status: number;
  /** An object for JSON, else the text. */
  readonly body: any;
}

/** A change that a watch reports. */
export interface KubeEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: any;
}

/** Requests to a real API server by the paths of its REST interface. */
export class KubeApi {
  readonly #agent: Agent;

  private constructor(
    /** Where it listens. */
    readonly server: URL,
    private readonly token: string,
    /** The certificate of its authority, in PEM. */
    readonly authority: string,
  ) {
    this.#agent = new Agent({ ca: authority, keepAlive: true });
  }

  /** @param file a kubeconfig with one cluster, and one user that has a token */
  static async open(file: string): Promise<KubeApi> {
    const { clusters, users } = parse(await readFile(file, 'utf8'));
    const { server, 'certificate-authority': authority } = clusters[0].cluster;
    return new KubeApi(new URL(server), users[0].user.token, await readFile(authority, 'utf8'));
  }

  /** A kubeconfig for this API server as JSON, which is YAML. */
  kubeconfig({ token = this.token, server = this.server.href, namespace = 'default' }): string {
    const authority = Buffer.from(this.authority).toString('base64');
    return kubeconfigOf({ server, token, namespace, authority });
  }

  async ask(method: string, path: string, body?: object, type = 'application/json'): Promise<KubeAnswer> {
    const response = await this.send(method, path, body, type);
    let text = '';
    for await (const piece of response.setEncoding('utf8')) text += piece;
    const isJson = response.headers['content-type']?.startsWith('application/json') === true;
    return { status: response.statusCode ?? 0, body: isJson ? JSON.parse(text) : text };
  }

  /** @throws Error unless the answer is 2xx */
  async must(method: string, path: string, body?: object, type?: string): Promise<any> {
    const answer = await this.ask(method, path, body, type);
    if (answer.status < 200 || answer.status > 299) {
      throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    }
    return answer.body;
  }

  /**
   * Reports the objects below a path and their changes until the signal; after an interruption, all objects again.
   * @param from the version after which changes are reported; empty: all objects first
   */
  async watch(
    path: string,
    onEvent: (event: KubeEvent) => void,
    signal: AbortSignal,
    from = '',
  ): Promise<void> {
    while (!signal.aborted) {
      try {
        const query = `?watch=true&resourceVersion=${from}`;
        const response = await this.send('GET', `${path}${query}`, undefined, 'application/json', signal);
        for await (const line of createInterface({ input: response })) onEvent(JSON.parse(line));
      } catch {
        // The API server is away or has cut the watch.
      }
      await sleep(100, undefined, { signal }).catch(() => undefined);
    }
  }

  /** Text that is sent as it comes, such as a followed log; ends with the answer. @returns the status */
  async stream(path: string, onText: (text: string) => void): Promise<number> {
    const response = await this.send('GET', path);
    for await (const piece of response.setEncoding('utf8')) onText(piece);
    return response.statusCode ?? 0;
  }

  close(): void {
    this.#agent.destroy();
  }

  private send(
    method: string,
    path: string,
    body?: object,
    type?: string,
    signal?: AbortSignal,
  ): Promise<IncomingMessage> {
    const headers = {
      authorization: `Bearer ${this.token}`,
      accept: 'application/json, */*',
      ...(body === undefined ? {} : { 'content-type': type ?? 'application/json' }),
    };
    return new Promise((resolve, reject) => {
      const options = { method, headers, agent: this.#agent, ...(signal === undefined ? {} : { signal }) };
      request(new URL(path, this.server), options, resolve)
        .once('error', reject)
        .end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}

/** A kubeconfig as JSON, which is YAML. */
export function kubeconfigOf(access: {
  readonly server: string;
  readonly token: string;
  readonly namespace: string;
  /** PEM in base64; absent for http. */
  readonly authority?: string;
}): string {
  const { server, token, namespace, authority } = access;
  // The client library refuses http without this.
  const trusted =
    authority === undefined
      ? { 'insecure-skip-tls-verify': true }
      : { 'certificate-authority-data': authority };
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'tests', cluster: { server, ...trusted } }],
    users: [{ name: 'launcher', user: { token } }],
    contexts: [{ name: 'tests', context: { cluster: 'tests', user: 'launcher', namespace } }],
    'current-context': 'tests',
  });
}
