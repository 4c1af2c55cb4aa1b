import { callbackify } from 'node:util';
import { Client, Pool } from 'pg';
import type { ClientConfig, PoolClient, PoolConfig } from 'pg';
import { CircuitBreaker } from './circuit-breaker.js';

type Connected = (
  error: Error | undefined,
  client: PoolClient | undefined,
  done: (release?: unknown) => void,
) => void;

/** A pool that refuses at once while its gate knows that the database is away. Its options carry the gate as `gate`. */
export class WatchedPool extends Pool {
  readonly #gate: CircuitBreaker | undefined;

  constructor(config?: PoolConfig) {
    super(config);
    const gate = gateIn(config);
    this.#gate = gate;
    this.once('connect', () => gate?.join(this));
  }

  override connect(): Promise<PoolClient>;
  override connect(callback: Connected): void;
  override connect(callback?: Connected): Promise<PoolClient> | void {
    if (callback) return this.#connect(callback);
    return new Promise((resolve, reject) => {
      this.#connect((error, client) =>
        client ? resolve(client) : reject(error ?? new Error('no connection')),
      );
    });
  }

  override end(): Promise<void>;
  override end(callback: (error?: Error) => void): void;
  override end(callback?: (error?: Error) => void): Promise<void> | void {
    if (!callback) return this.#end();
    callbackify(() => this.#end())((error) => callback(error ?? undefined));
  }

  async #end(): Promise<void> {
    await Promise.all([super.end(), this.#gate?.leave(this)]);
  }

  #connect(callback: Connected): void {
    const away = this.#gate?.away;
    if (away) {
      process.nextTick(callback, away, undefined, () => undefined);
      return;
    }
    let refused = false;
    const admit = this.#gate?.whenAway((reason) => {
      refused = true;
      callback(reason, undefined, () => undefined);
    });
    super.connect((error, client, done) => {
      admit?.();
      if (!refused) callback(error, client, done);
      else if (client) done();
    });
  }
}

/**
 * A connection that ends when an answer did not come in time. The driver alone gives the statement up but goes on
 * using the connection, on which the statement may still run and a transaction may be open that nobody ends: the
 * next user of that connection would write into it.
 * Its loss never ends the process: between the pool and its user nobody listens for a moment, and whoever has it then
 * learns of the loss from its next statement.
 */
export class WatchedClient extends Client {
  readonly #gate: CircuitBreaker | undefined;

  constructor(config?: ClientConfig) {
    super(config);
    this.#gate = gateIn(config);
    this.on('error', () => undefined);
    const forget = this.#gate?.watch({ cut: () => this.connection.stream.destroy() });
    this.once('end', () => forget?.());
    this.connect = this.#watched(this.connect.bind(this));
    this.query = this.#watched(this.query.bind(this));
  }

  /** Has the gate told when what the function starts begins and ends. */
  #watched<F extends (...args: never[]) => unknown>(start: F): F {
    return new Proxy(start, {
      apply: (_start, _this, args: unknown[]): unknown => {
        const end = this.#gate?.begin();
        const callback = args.at(-1);
        if (typeof callback === 'function') {
          const told = (...result: unknown[]): unknown => {
            end?.(result[0] ?? undefined);
            return Reflect.apply(callback, undefined, result);
          };
          return Reflect.apply(start, undefined, [...args.slice(0, -1), told]);
        }
        const answer: unknown = Reflect.apply(start, undefined, args);
        if (!(answer instanceof Promise)) end?.();
        else {
          answer.then(
            () => end?.(),
            (error: unknown) => {
              end?.(error);
              if (error instanceof Error && error.message === 'Query read timeout')
                this.connection.stream.destroy();
            },
          );
        }
        return answer;
      },
    });
  }
}

function gateIn(config: object | undefined): CircuitBreaker | undefined {
  return config && 'gate' in config && config.gate instanceof CircuitBreaker ? config.gate : undefined;
}
