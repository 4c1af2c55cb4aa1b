import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../programs/free-port.js';
import type { SeededRandom } from '../history/seeded-random.js';

const PAGE = '<!doctype html><html><head><title>proxy</title></head><body>Try again.</body></html>';

/** Bytes a second of a slow link. */
const SLOW = 20_000;
const SLICE = 2_000;

/** Answers of a proxy in place of those of the service. */
const FOREIGN = [200, 302, 400, 401, 403, 404, 409, 413, 429, 500, 502, 503] as const;

type Fault = (typeof FOREIGN)[number] | 'cut' | 'silence' | 'slow';

const FAULTS: readonly [Fault, ...Fault[]] = [...FOREIGN, 'cut', 'cut', 'cut', 'silence', 'slow', 'slow'];

/** A proxy between workers and the service that answers some requests itself, cuts, is silent or slow. */
export class ChaosProxy {
  /** How often each fault was met. */
  readonly met = new Map<Fault, number>();

  private constructor(
    readonly url: string,
    private readonly server: Server,
    private readonly target: string,
    private readonly random: SeededRandom,
    /** Of a hundred requests so many meet a fault. */
    public percent: number,
    private readonly silenceMs: number,
  ) {}

  /** @param target URL of the service */
  static async start(
    target: string,
    random: SeededRandom,
    { percent, silenceMs }: ChaosProxyOptions,
  ): Promise<ChaosProxy> {
    const port = await freePort();
    const server = createServer();
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    const proxy = new ChaosProxy(`http://127.0.0.1:${port}`, server, target, random, percent, silenceMs);
    server.on('request', (incoming, response) => void proxy.answer(incoming, response));
    return proxy;
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  private async answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    incoming.on('error', () => undefined);
    const { random } = this;
    const fault = random.chance(this.percent) ? random.pick(FAULTS) : null;
    if (fault !== null) this.met.set(fault, (this.met.get(fault) ?? 0) + 1);
    // Of the requests whose answer is lost, half have been executed.
    const isPassedOn = fault === null || fault === 'slow' || random.chance(50);
    try {
      const answer = isPassedOn ? await this.passOn(incoming, response, fault === 'slow') : null;
      if (fault === 'silence') await sleep(this.silenceMs);
      if (fault === 'cut' || fault === 'silence') {
        answer?.destroy();
        incoming.socket.destroy();
      } else if (fault !== null && fault !== 'slow') {
        answer?.resume();
        incoming.resume();
        response.writeHead(fault, { 'Content-Type': 'text/html', Location: '/login' }).end(PAGE);
      } else if (answer !== null) {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        await copy(answer, response, fault === 'slow');
        response.end();
      }
    } catch {
      incoming.socket.destroy();
    }
  }

  /** @returns the answer of the service, whose body is not read yet */
  private async passOn(
    incoming: IncomingMessage,
    response: ServerResponse,
    isSlow: boolean,
  ): Promise<IncomingMessage> {
    const { method = 'GET', url = '/', headers } = incoming;
    const outgoing = request(this.target + url, { method, headers, agent: false });
    response.once('close', () => outgoing.destroy());
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', resolve).once('error', reject);
    });
    answered.catch(() => undefined);
    await copy(incoming, outgoing, isSlow);
    outgoing.end();
    const answer = await answered;
    answer.on('error', () => undefined);
    return answer;
  }
}

export interface ChaosProxyOptions {
  /** Of a hundred requests so many meet a fault. */
  readonly percent: number;
  /** How long a silent answer takes before its connection is cut. */
  readonly silenceMs: number;
}

async function copy(from: IncomingMessage, to: NodeJS.WritableStream, isSlow: boolean): Promise<void> {
  for await (const piece of from as AsyncIterable<Buffer>) {
    if (!isSlow) {
      to.write(piece);
      continue;
    }
    for (let at = 0; at < piece.length; at += SLICE) {
      to.write(piece.subarray(at, at + SLICE));
      await sleep((SLICE / SLOW) * 1000);
    }
  }
}
