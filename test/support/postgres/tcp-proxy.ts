import assert from 'node:assert/strict';
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { TEST_PROGRAMS } from '../programs/test-programs.js';

/** Where a route leads to: a TCP port of this machine, or a Unix socket. */
export type ProxyTarget = { readonly port: number } | { readonly path: string };

/** What a route does to the bytes that come along. Everything is off unless given. */
export interface ProxyFaults {
  /** Each piece from a caller waits for so many milliseconds, drawn between the two. */
  readonly latencyMs?: readonly [min: number, max: number];
  /** Of a hundred pieces from callers, how many are dropped and their connection cut: the request never arrives. */
  readonly cutBefore?: number;
  /** Of a hundred pieces, how many arrive and have their connection cut before the answer or within it. */
  readonly cutAfter?: number;
  /** Nothing passes in either direction, and nobody is told. Connections that were held like this are cut afterwards. */
  readonly blackhole?: boolean;
}

/** What the proxy's process is asked. */
export type ProxyRequest =
  | { readonly id: number; readonly ask: 'open'; readonly target: ProxyTarget; readonly seed: number }
  | {
      readonly id: number;
      readonly ask: 'set';
      readonly port: number;
      readonly target?: ProxyTarget;
      readonly faults?: ProxyFaults;
    }
  | { readonly id: number; readonly ask: 'cut' | 'cuts'; readonly port: number };

/** What it answers: a port, or a number of connections. */
export interface ProxyAnswer {
  readonly id: number;
  readonly value: number;
}

type Question = ProxyRequest extends infer R ? (R extends ProxyRequest ? Omit<R, 'id'> : never) : never;

/** A TCP proxy in a process of its own, so that a busy test does not slow what passes through it. */
export class TcpProxy {
  readonly #waiting = new Map<number, { resolve: (value: number) => void; reject: (error: Error) => void }>();
  #serial = 0;

  private constructor(
    private readonly child: ChildProcess,
    private readonly seed: number,
  ) {
    child.on('message', ({ id, value }: ProxyAnswer) => {
      this.#waiting.get(id)?.resolve(value);
      this.#waiting.delete(id);
    });
    child.once('exit', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('the proxy has ended'));
      this.#waiting.clear();
    });
  }

  /** @param seed what the proxy's faults are drawn from; the n-th route draws the same with the same seed */
  static async start(seed = 1): Promise<TcpProxy> {
    const child = fork(join(TEST_PROGRAMS, 'tcp-proxy-process.js'), { stdio: 'inherit' });
    await once(child, 'spawn');
    return new TcpProxy(child, seed);
  }

  /** Opens a way to a target. */
  async open(target: ProxyTarget): Promise<ProxyRoute> {
    return new ProxyRoute(await this.ask({ ask: 'open', target, seed: this.seed + this.#serial }), this);
  }

  /** Asks the process. @throws Error when it has ended */
  ask(question: Question): Promise<number> {
    const id = (this.#serial += 1);
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      if (!this.child.connected) reject(new Error('the proxy has ended'));
      else this.child.send({ id, ...question });
    });
  }

  /** Cuts everything and ends the process. */
  async close(): Promise<void> {
    if (this.child.exitCode !== null) return;
    const ended = once(this.child, 'exit');
    this.child.disconnect();
    await ended;
    assert.equal(this.child.exitCode, 0, 'the proxy ended in order');
  }
}

/** One way through the proxy. */
export class ProxyRoute {
  constructor(
    /** Where callers connect, on 127.0.0.1. */
    readonly port: number,
    private readonly proxy: TcpProxy,
  ) {}

  /** Leads new connections elsewhere. */
  async lead(target: ProxyTarget): Promise<void> {
    await this.proxy.ask({ ask: 'set', port: this.port, target });
  }

  /** Replaces what it does to connections; `{}` makes it harmless. */
  async misbehave(faults: ProxyFaults): Promise<void> {
    await this.proxy.ask({ ask: 'set', port: this.port, faults });
  }

  /** Cuts all connections of this moment; answers how many. */
  cut(): Promise<number> {
    return this.proxy.ask({ ask: 'cut', port: this.port });
  }

  /** How many connections have been cut so far. */
  cuts(): Promise<number> {
    return this.proxy.ask({ ask: 'cuts', port: this.port });
  }
}
