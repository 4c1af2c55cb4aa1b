import type { ServerResponse } from 'node:http';
import {
  Injectable,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import type { Response } from 'express';
import { Gauge, Registry } from 'prom-client';
import { finalize, type Observable } from 'rxjs';
import { DataSource } from 'typeorm';
import { poolOf } from '../../../database/sql/sql.js';
import { ClientGone } from '../request/body-reader.js';

/** The requests of one API key. */
interface Line {
  taken: number;
  /** Begin the turns of requests that wait, in order of arrival. */
  readonly waiting: Set<() => void>;
}

/** End the turns of requests, by response. */
const ends = new WeakMap<ServerResponse, () => void>();

/** Ends the turn of a request, if it has one: what follows needs no connection to the database. */
export function endDatabaseTurn(response: ServerResponse): void {
  ends.get(response)?.();
}

/**
 * Shares the application's pool of connections between API keys: requests of one key have at most half of it at once, and at least
 * one connection. Further ones wait in order of arrival, without a connection. One whose client disconnects leaves the line.
 */
@Injectable()
export class DatabaseTurns {
  readonly #lines = new Map<string, Line>();
  readonly #perKey: number;

  constructor(dataSource: DataSource, registry: Registry) {
    this.#perKey = Math.max(1, Math.floor((poolOf(dataSource)?.options.max ?? 0) / 2));
    const waiting: Gauge = new Gauge({
      name: 'longshore_database_turns_waiting',
      help: 'Requests that wait because others of their API key use its share of the main pool',
      registers: [registry],
      collect: () => waiting.set(this.waiting),
    });
  }

  /** Requests that wait for a turn. */
  get waiting(): number {
    return [...this.#lines.values()].reduce((sum, { waiting }) => sum + waiting.size, 0);
  }

  /**
   * Gives a request a turn, unless it has one. The turn ends with {@link endDatabaseTurn}, not with the client's connection: statements
   * of a client that is gone go on. Returns synchronously when a turn is free.
   * @throws ClientGone
   */
  take(response: Response): true | Promise<true> {
    if (ends.has(response)) return true;
    if (response.closed || response.destroyed) throw new ClientGone();
    const keyId = response.req.user?.id ?? '';
    const line = this.#lines.get(keyId) ?? { taken: 0, waiting: new Set() };
    if (line.taken < this.#perKey) {
      line.taken += 1;
      this.#lines.set(keyId, line);
      this.#begin(response, keyId, line);
      return true;
    }
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        response.off('close', leave);
        this.#begin(response, keyId, line);
        resolve(true);
      };
      const leave = (): void => {
        line.waiting.delete(begin);
        reject(new ClientGone());
      };
      line.waiting.add(begin);
      response.once('close', leave);
    });
  }

  /** Runs one read of a request in a turn. @throws ClientGone */
  async run<T>(response: Response, read: () => Promise<T>): Promise<T> {
    if (ends.has(response)) return read();
    await this.take(response);
    try {
      return await read();
    } finally {
      endDatabaseTurn(response);
    }
  }

  /** The items, each read in a turn of its own: while the client reads one, the request has none. */
  async *runEach<T>(response: Response, items: AsyncIterable<T>): AsyncGenerator<T> {
    const iterator = items[Symbol.asyncIterator]();
    for (;;) {
      const item = await this.run(response, () => iterator.next());
      if (item.done) return;
      yield item.value;
    }
  }

  #begin(response: Response, keyId: string, line: Line): void {
    const end = (): void => {
      ends.delete(response);
      const [next] = line.waiting;
      if (next) {
        line.waiting.delete(next);
        next();
        return;
      }
      line.taken -= 1;
      if (line.taken === 0) this.#lines.delete(keyId);
    };
    ends.set(response, end);
  }
}

@Injectable()
class DatabaseTurnInterceptor implements NestInterceptor {
  constructor(private readonly turns: DatabaseTurns) {}

  intercept(
    context: ExecutionContext,
    next: CallHandler<unknown>,
  ): Observable<unknown> | Promise<Observable<unknown>> {
    const response = context.switchToHttp().getResponse<Response>();
    const handle = (): Observable<unknown> => next.handle().pipe(finalize(() => endDatabaseTurn(response)));
    const taken = this.turns.take(response);
    return taken === true ? handle() : taken.then(handle);
  }
}

/**
 * Requests of the route have a turn while their handler runs: for routes that use connections of the pool one by one. Those whose
 * work goes through the journal, or through statements that requests share, must not: their concurrency makes the groups.
 */
export function TakesDatabaseTurn(): MethodDecorator & ClassDecorator {
  return UseInterceptors(DatabaseTurnInterceptor);
}
