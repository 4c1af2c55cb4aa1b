import { Agent, request, type IncomingMessage } from 'node:http';

/** What came back. */
export interface WireAnswer {
  readonly status: number;
  /** The JSON body, read leniently; undefined when there is none. */
  // oxlint-disable-next-line typescript/no-explicit-any -- answers of any shape
  readonly body: any;
}

/** One request. */
export interface WireRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds after which it is given up. Default 2,000. */
  readonly timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 2000;

/**
 * HTTP to one server with connections that are kept. It never sends anything twice, and tells a whole answer from
 * anything else.
 */
export class Wire {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 256 });
  /** How many requests had which status; 0: no whole answer. */
  readonly statuses = new Map<number, number>();

  constructor(
    private readonly port: number,
    private readonly key: string,
  ) {}

  /** Sends a request; undefined when no whole answer came in time. */
  async send(sent: WireRequest): Promise<WireAnswer | undefined> {
    const answer = await this.#exchange(sent);
    const status = answer?.status ?? 0;
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
    return answer;
  }

  /** Closes its connections. */
  close(): void {
    this.#agent.destroy();
  }

  #exchange({ method, path, body, headers, timeoutMs }: WireRequest): Promise<WireAnswer | undefined> {
    const text = body === undefined ? '' : JSON.stringify(body);
    return new Promise((resolve) => {
      const asked = request({
        agent: this.#agent,
        host: '127.0.0.1',
        port: this.port,
        method,
        path,
        headers: {
          'X-API-Key': this.key,
          ...(body === undefined
            ? {}
            : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
          ...headers,
        },
      });
      const give = (answer: WireAnswer | undefined): void => {
        clearTimeout(timer);
        resolve(answer);
      };
      const timer = setTimeout(() => {
        give(undefined);
        asked.destroy();
      }, timeoutMs ?? DEFAULT_TIMEOUT_MS);
      asked.on('error', () => give(undefined));
      asked.on('response', (response: IncomingMessage) => {
        const pieces: Buffer[] = [];
        response.on('data', (piece: Buffer) => pieces.push(piece));
        response.on('error', () => give(undefined));
        response.on('close', () => give(undefined));
        response.on('end', () => {
          const whole = Buffer.concat(pieces).toString('utf8');
          give(response.complete ? { status: response.statusCode ?? 0, body: parsed(whole) } : undefined);
        });
      });
      asked.end(text);
    });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
