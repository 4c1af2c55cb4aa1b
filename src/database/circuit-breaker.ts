import { AsyncResource } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DataSource } from 'typeorm';
import { DatabaseProbe, ProbeSilent } from './database-probe.js';
import { DatabaseAway, isDatabaseUnavailable } from './unavailable.js';

/** How soon an outage and its end are noticed, in milliseconds. */
export interface OutageTimes {
  /** A statement or a connection that takes longer than this is a reason to ask whether the database is there. */
  readonly suspectAfter: number;
  /** Longest wait for the answer to that question. */
  readonly answer: number;
  /** Pause between two questions while the database is away. */
  readonly pause: number;
}

const USUAL_TIMES: OutageTimes = { suspectAfter: 1_000, answer: 1_500, pause: 200 };

const WATCH_MS = 250;

/** A connection that the gate can cut. */
export interface Cuttable {
  cut(): void;
}

/** The database went away, or is back after so many milliseconds. */
export type OutageChange = { readonly away: DatabaseAway } | { readonly backAfterMs: number };

/**
 * Knows whether the database is away, for all pools of one data source and of those derived from it. A connection that
 * breaks, is refused or is silent for long makes it ask on a connection of its own; when that has no answer either, the
 * database is away: every connection is cut, so that nobody waits on it, and whoever wants one is refused at once. From
 * then on it goes on asking, alone, until there is an answer. It works while at least one pool is open.
 */
export class CircuitBreaker {
  /** Told of every change. */
  onChange: (change: OutageChange) => void = () => undefined;

  readonly #probe: DatabaseProbe;
  readonly #pools = new Set<object>();
  readonly #connections = new Set<Cuttable>();
  readonly #underWay = new Set<{ readonly since: number }>();
  readonly #refusals = new Set<(away: DatabaseAway) => void>();
  // An outage is noticed by a request, whose id has no place in what is logged of it later on.
  readonly #scope = new AsyncResource('CircuitBreaker');
  #away: DatabaseAway | undefined;
  #checking: Promise<boolean> | undefined;
  #checkedAt = 0;
  #heardAt = 0;
  #watch: NodeJS.Timeout | undefined;
  #stop = new AbortController();
  #return: Promise<void> | undefined;

  constructor(
    url: string,
    applicationName: string,
    private readonly times: OutageTimes = USUAL_TIMES,
  ) {
    this.#probe = new DatabaseProbe(url, applicationName);
  }

  /** The gate of a data source. @throws TypeError for one that the service's options did not make */
  static of({ options }: DataSource): CircuitBreaker {
    const gate: unknown = options.type === 'postgres' ? options.extra?.gate : undefined;
    if (!(gate instanceof CircuitBreaker)) throw new TypeError('the data source has no outage gate');
    return gate;
  }

  /** Why nobody gets a connection at the moment; undefined while the database is there as far as is known. */
  get away(): DatabaseAway | undefined {
    return this.#away;
  }

  /** A pool has its first connection. */
  join(pool: object): void {
    this.#pools.add(pool);
    if (this.#stop.signal.aborted) this.#stop = new AbortController();
    this.#watch ??= setInterval(() => this.#lookAround(), WATCH_MS).unref();
  }

  /** A pool is being closed; with the last one everything of the gate is. */
  async leave(pool: object): Promise<void> {
    this.#pools.delete(pool);
    if (this.#pools.size > 0) return;
    clearInterval(this.#watch);
    this.#watch = undefined;
    this.#stop.abort();
    await this.#return;
    await this.#checking;
    await this.#probe.close();
  }

  /** Keeps a connection in view until the function that this answers is called. */
  watch(connection: Cuttable): () => void {
    this.#connections.add(connection);
    return () => void this.#connections.delete(connection);
  }

  /** Something was sent to the database; the function that this answers takes how it ended. */
  begin(): (error?: unknown) => void {
    const entry = { since: performance.now() };
    this.#underWay.add(entry);
    return (error) => {
      this.#underWay.delete(entry);
      if (error === undefined) this.#heardAt = performance.now();
      else if (isDatabaseUnavailable(error)) void this.check();
    };
  }

  /** Has the function called once should the database go away; the function that this answers takes that back. */
  whenAway(refuse: (away: DatabaseAway) => void): () => void {
    this.#refusals.add(refuse);
    return () => void this.#refusals.delete(refuse);
  }

  /**
   * Asks whether the database is there; callers at the same time share one question. It takes `times.answer` at most.
   * A server without a connection to spare is there for whoever has one.
   */
  check(): Promise<boolean> {
    if (this.#away || this.#pools.size === 0) return Promise.resolve(false);
    this.#checking ??= this.#ask().finally(() => {
      this.#checkedAt = performance.now();
      this.#checking = undefined;
    });
    return this.#checking;
  }

  #lookAround(): void {
    const now = performance.now();
    if (this.#away || now - this.#checkedAt < this.times.suspectAfter) return;
    for (const { since } of this.#underWay) {
      if (now - since < this.times.suspectAfter) continue;
      void this.check();
      return;
    }
  }

  async #ask(): Promise<boolean> {
    const started = performance.now();
    const failure = await this.#probe.ask(this.times.answer);
    if (failure === undefined) return true;
    // Whoever answers others while it owes us an answer is slow, not away.
    if (failure instanceof ProbeSilent && this.#heardAt > started) return true;
    // Refused for want of a connection: those that are open work on, if there is one.
    if (isOutOfConnections(failure)) return this.#connections.size > 0;
    if (isDatabaseUnavailable(failure)) this.#goAway(failure);
    return false;
  }

  #goAway(reason: unknown): void {
    if (this.#stop.signal.aborted) return;
    const away = new DatabaseAway(reason);
    this.#away = away;
    this.#return = this.#scope.runInAsyncScope(() => this.#awaitReturn(away));
    for (const refuse of this.#refusals) refuse(away);
    this.#refusals.clear();
    for (const connection of this.#connections) connection.cut();
  }

  async #awaitReturn(away: DatabaseAway): Promise<void> {
    const started = performance.now();
    const { signal } = this.#stop;
    this.onChange({ away });
    while (!signal.aborted) {
      await sleep(this.times.pause, undefined, { signal }).catch(() => undefined);
      const failure = signal.aborted ? undefined : await this.#probe.ask(this.times.answer);
      if (failure === undefined || !isDatabaseUnavailable(failure) || isOutOfConnections(failure)) break;
    }
    this.#away = undefined;
    if (!signal.aborted) this.onChange({ backAfterMs: Math.round(performance.now() - started) });
  }
}

/** Whether the server is there and has no connection to spare: those that are open go on working. */
function isOutOfConnections(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'code' in error && error.code === '53300';
}
