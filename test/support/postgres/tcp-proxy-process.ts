// The process of a TcpProxy: it is told what to do over IPC, and ends when its parent does.
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { SeededRandom } from '../history/seeded-random.js';
import type { ProxyAnswer, ProxyFaults, ProxyRequest, ProxyTarget } from './tcp-proxy.js';

/** Bytes of an answer that pass when it is cut within. */
const BEGINNING_OF_ANSWER = 20;

/** A caller's connection and the one to the target. */
class Pair {
  /** Set when the answer to what was sent is not to arrive. */
  #condemned = false;
  #sending: Promise<void> = Promise.resolve();
  #isCut = false;

  constructor(
    private readonly caller: Socket,
    private readonly target: Socket,
    private readonly route: Route,
  ) {
    for (const socket of [caller, target]) {
      socket.setNoDelay(true);
      socket.on('error', () => this.end());
      socket.on('close', () => this.end());
    }
    caller.on('data', (piece) => {
      this.#sending = this.#sending.then(() => this.#send(piece));
    });
    target.on('data', (piece) => this.#answer(piece));
    // What was sent before the end still has to arrive.
    caller.on('end', () => void this.#sending.then(() => target.end()));
    target.on('end', () => caller.end());
  }

  /** Ends both sides at once. */
  end(): void {
    this.caller.destroy();
    this.target.destroy();
    this.route.pairs.delete(this);
  }

  /** The same, and counts. */
  cut(): void {
    if (!this.#isCut) this.route.cuts += 1;
    this.#isCut = true;
    this.end();
  }

  async #send(piece: Buffer): Promise<void> {
    const { faults, random } = this.route;
    const drawn = random.next() * 100;
    const { cutBefore = 0, cutAfter = 0, latencyMs } = faults;
    if (latencyMs) await sleep(random.int(...latencyMs));
    if (this.route.faults.blackhole === true || this.#isCut) return;
    if (drawn < cutBefore) {
      this.cut();
      return;
    }
    this.target.write(piece);
    if (drawn < cutBefore + cutAfter) this.#condemned = true;
  }

  #answer(piece: Buffer): void {
    if (this.route.faults.blackhole === true || this.#isCut) return;
    if (!this.#condemned) {
      this.caller.write(piece);
      return;
    }
    if (this.route.random.chance(50)) {
      this.cut();
    } else {
      this.caller.write(piece.subarray(0, BEGINNING_OF_ANSWER), () => this.cut());
    }
  }
}

class Route {
  readonly pairs = new Set<Pair>();
  readonly random: SeededRandom;
  readonly server: Server;
  faults: ProxyFaults = {};
  cuts = 0;

  constructor(
    public target: ProxyTarget,
    seed: number,
  ) {
    this.random = new SeededRandom(seed);
    this.server = createServer({ allowHalfOpen: true }, (caller) => {
      this.pairs.add(new Pair(caller, connect({ ...this.target, allowHalfOpen: true }), this));
    });
  }

  change(faults: ProxyFaults): void {
    const wasHeld = this.faults.blackhole === true;
    this.faults = faults;
    if (wasHeld && faults.blackhole !== true) this.cutAll();
  }

  cutAll(): number {
    const { size } = this.pairs;
    for (const pair of this.pairs) pair.cut();
    return size;
  }
}

const routes = new Map<number, Route>();

async function answer(request: ProxyRequest): Promise<number> {
  if (request.ask === 'open') {
    const route = new Route(request.target, request.seed);
    route.server.listen(0, '127.0.0.1');
    await once(route.server, 'listening');
    const address = route.server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    routes.set(port, route);
    return port;
  }
  const route = routes.get(request.port);
  if (!route) throw new Error(`there is no route at port ${request.port}`);
  switch (request.ask) {
    case 'set':
      if (request.target) route.target = request.target;
      if (request.faults) route.change(request.faults);
      return 0;
    case 'cut':
      return route.cutAll();
    case 'cuts':
      return route.cuts;
  }
}

async function respond(request: ProxyRequest): Promise<void> {
  const message: ProxyAnswer = { id: request.id, value: await answer(request) };
  process.send?.(message);
}

process.on('message', (request: ProxyRequest) => void respond(request));
process.once('disconnect', () => process.exit(0));
// Ctrl-C and the end of a test reach the parent, which then disconnects.
process.on('SIGINT', () => undefined);
