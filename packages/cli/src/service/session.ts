import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLongshoreClient, type LongshoreClient } from '@longshore/client';
import { Backoff } from '@longshore/common/backoff';
import { EXACT_JSON } from '@longshore/common/json/json-text';
import { CliError, EXIT, failureText, hasNeverLeft, isRetryable, refusalOf } from '../cli-error.js';
import type { Connection } from './connection.js';
import type { Output } from '../terminal/output.js';

const REQUEST_MS = 30_000;
/** Retry time for a service that was never reached. */
const FIRST_PATIENCE_MS = 3_000;
/** Retry time for a request that may have been executed. */
const PATIENCE_MS = 60_000;
/** Pauses between retries. */
export const RETRY = { firstMs: 100, maxMs: 5_000 };

/** Result of a call of the generated client. */
export interface Answered<T> {
  readonly data?: T;
  readonly error?: unknown;
  readonly response: Response;
}

/** Options of every call. */
export interface CallInit {
  readonly signal: AbortSignal;
  /** Following a redirect would send the API key to another server. */
  readonly redirect: 'manual';
}

/** A call of the generated client. */
type Call<T> = (init: CallInit) => Promise<Answered<T>>;

/** What a call gives. */
export interface Answer<T> {
  /** Undefined for a 204. */
  readonly data: T;
  readonly response: Response;
}

/** How a call may be made. */
interface CallRules {
  /** Whether the request may be sent again after a lost response: it changes nothing or has an idempotency key. */
  readonly isRepeatable: boolean;
  /** Milliseconds without a response before the call fails. */
  readonly patienceMs?: number | undefined;
}

/** Calls to one service: repeats them while it is unreachable, and turns failures into one-line errors. */
export class Session {
  readonly client: LongshoreClient;

  constructor(
    connection: Connection,
    readonly output: Output,
    /** Aborts at Ctrl-C. */
    readonly stop: AbortSignal,
    /** The proxy that requests go through. */
    private readonly proxy?: string,
  ) {
    this.client = createLongshoreClient({
      baseUrl: connection.url,
      apiKey: connection.apiKey,
      json: EXACT_JSON,
    });
    this.url = connection.url;
  }

  readonly url: string;

  private get through(): string {
    return this.proxy === undefined ? '' : ` through the proxy ${this.proxy}`;
  }

  /** Idempotency key of a new request. */
  newKey(): string {
    return randomUUID();
  }

  /** The service's time by the header `Date`, in milliseconds since 1970, to the second. @throws CliError */
  async serviceNow(): Promise<number> {
    const { response } = await this.answer((init) => this.client.GET('/whoami', { ...init }));
    // A proxy may remove the header.
    return Date.parse(response.headers.get('Date') ?? '') || Date.now();
  }

  /** Makes a call that may be repeated, until there is a response. @throws CliError */
  answer<T>(call: Call<T>, patienceMs?: number): Promise<Answer<T>> {
    return this.call(call, { isRepeatable: true, patienceMs });
  }

  /** The data of {@link answer}. */
  async ask<T>(call: Call<T>, patienceMs?: number): Promise<T> {
    return (await this.answer(call, patienceMs)).data;
  }

  /** Makes a call that is not repeated once it may have been executed. @throws CliError */
  async askOnce<T>(call: Call<T>): Promise<T> {
    return (await this.call(call, { isRepeatable: false })).data;
  }

  private async call<T>(call: Call<T>, rules: CallRules): Promise<Answer<T>> {
    const began = Date.now();
    let mayHaveArrived = false;
    for (const backoff = new Backoff(RETRY); ;) {
      const outcome = await this.tryOnce(call);
      if ('response' in outcome) return outcome;
      mayHaveArrived ||= outcome.mayHaveArrived;
      if (mayHaveArrived && !rules.isRepeatable) {
        throw this.unreachableError(`${outcome.reason}; it may have been carried out all the same`, true);
      }
      const patienceMs =
        rules.patienceMs ?? (mayHaveArrived || outcome.isUp ? PATIENCE_MS : FIRST_PATIENCE_MS);
      const pauseMs = Math.max(backoff.nextMs(), outcome.retryAfterMs);
      if (Date.now() + pauseMs - began > patienceMs) {
        throw this.unreachableError(outcome.reason, mayHaveArrived);
      }
      if (backoff.failures === NOTED_AT)
        this.output.note(`${this.url}${this.through} does not answer (${outcome.reason}), trying again`);
      await this.pause(pauseMs);
    }
  }

  /** Waits. @throws CliError at Ctrl-C */
  async pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.stop }).catch(() => this.throwIfStopped());
  }

  /** @throws CliError after Ctrl-C */
  throwIfStopped(): void {
    if (this.stop.aborted) throw new CliError(EXIT.interrupted, 'interrupted');
  }

  /** Error for a service that does not respond. */
  unreachableError(reason: string, mayHaveArrived = false): CliError {
    return new CliError(
      EXIT.unreachable,
      `cannot reach the service at ${this.url}${this.through}: ${reason}`,
      mayHaveArrived,
    );
  }

  private async tryOnce<T>(call: Call<T>): Promise<Answer<T> | NoAnswer> {
    this.throwIfStopped();
    const signal = AbortSignal.any([this.stop, AbortSignal.timeout(REQUEST_MS)]);
    try {
      const { data, error, response } = await call({ signal, redirect: 'manual' });
      // 304: what the caller has is the answer.
      if ((response.ok || response.status === 304) && data !== undefined) return { data, response };
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the generated client has for it
      if (response.status === 204) return { data: undefined as T, response };
      if (!isRetryable(error, response)) throw refusalOf(error, response, this.url);
      const seconds = Number(response.headers.get('Retry-After') ?? 0);
      return {
        reason: refusalOf(error, response, this.url).message,
        // 429 and 503 mean that nothing was executed; after a gateway's 502 and 504 that is unknown.
        mayHaveArrived: response.status === 502 || response.status === 504,
        isUp: true,
        retryAfterMs: seconds > 0 && seconds < 3600 ? seconds * 1000 : 0,
      };
    } catch (error) {
      this.throwIfStopped();
      if (error instanceof CliError) throw error;
      if (error instanceof SyntaxError) {
        throw new CliError(EXIT.unreachable, `${this.url} does not answer as a Longshore service does`);
      }
      const reason = failureText(error);
      return { reason, mayHaveArrived: !hasNeverLeft(error), isUp: false, retryAfterMs: 0 };
    }
  }
}

/** Number of the pause before which the user is told. */
const NOTED_AT = 4;

interface NoAnswer {
  readonly reason: string;
  readonly mayHaveArrived: boolean;
  /** Whether something answers there. */
  readonly isUp: boolean;
  readonly retryAfterMs: number;
}
