import { callbackify } from 'node:util';
import { Pool, types } from 'pg';
import type { ClientConfig, PoolClient, PoolConfig } from 'pg';
import { lazyJson } from '@longshore/common/json/json-text';
import type { CircuitBreaker } from './circuit-breaker.js';
import type { ConnectionOptions, OriginGate } from './connection-options.js';
import { ServiceClient } from './service-client.js';
import { isReadOnly } from './unavailable.js';

type Connected = (
  error: Error | undefined,
  client: PoolClient | undefined,
  done: (release?: unknown) => void,
) => void;

/** A pool that rejects new connections while the circuit breaker of its options is open. */
export class GuardedPool extends Pool {
  readonly #breaker: CircuitBreaker;

  constructor(config: PoolConfig & ConnectionOptions) {
    super(config);
    this.#breaker = config.circuitBreaker;
    this.once('connect', () => this.#breaker.addPool(this));
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
    await Promise.all([super.end(), this.#breaker.removePool(this)]);
  }

  #connect(callback: Connected): void {
    const { error: unreachable } = this.#breaker;
    if (unreachable) {
      process.nextTick(callback, unreachable, undefined, () => undefined);
      return;
    }
    let isRejected = false;
    const cancel = this.#breaker.rejectWhenOpen((error) => {
      isRejected = true;
      callback(error, undefined, () => undefined);
    });
    super.connect((error, client, done) => {
      cancel();
      if (!isRejected) callback(error, client, done);
      else if (client) done();
    });
  }
}

/**
 * A connection that reports its requests to the circuit breaker of its options. It closes when a statement times out: the
 * driver would reuse the connection although the statement may still run in an open transaction. It also closes when the
 * server turns out to be read-only: another one may have been promoted. Losing it never ends the process: its user sees the
 * error of the next statement. Columns of type json are read by {@link lazyJson}.
 */
export class GuardedClient extends ServiceClient {
  readonly #breaker: CircuitBreaker;
  readonly #gate: OriginGate;

  constructor(config: ClientConfig & ConnectionOptions) {
    super(config);
    this.setTypeParser(types.builtins.JSON, lazyJson);
    this.#gate = config.originGate;
    this.#breaker = config.circuitBreaker;
    this.#breaker.addClient(this);
    this.on('error', () => undefined);
    this.connect = this.#reported(this.connect.bind(this));
    this.query = this.#reported(this.query.bind(this));
  }

  protected override onReady(): Promise<void> {
    return this.#gate.admit(this);
  }

  /** Reports the begin and end of each call, which takes a callback or returns a promise. */
  #reported<F extends (...args: never[]) => unknown>(start: F): F {
    return new Proxy(start, {
      apply: (_start, _this, args: unknown[]): unknown => {
        const end = this.#breaker.begin();
        const callback = args.at(-1);
        if (typeof callback === 'function') {
          const onResult = (...result: unknown[]): unknown => {
            end(result[0] ?? undefined);
            return Reflect.apply(callback, undefined, result);
          };
          return Reflect.apply(start, undefined, [...args.slice(0, -1), onResult]);
        }
        const result: unknown = Reflect.apply(start, undefined, args);
        if (result instanceof Promise) {
          result.then(
            () => end(),
            (error: unknown) => {
              end(error);
              const isTimeout = error instanceof Error && error.message === 'Query read timeout';
              if (isTimeout) this.connection.stream.destroy();
              if (isReadOnly(error)) this.leaveServer();
            },
          );
        } else end();
        return result;
      },
    });
  }
}
