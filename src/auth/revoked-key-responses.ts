import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { Response } from 'express';
import type { Caller } from './access.js';
import { StoredKeys } from './api-key-cache.js';

/**
 * How often the keys of answers under way are looked at, in milliseconds. Together with the time for which an answer
 * of the database is believed it stays below the five seconds that a revoked key may live on.
 */
export const CHECK_MS = 500;

interface OpenAnswer {
  readonly caller: Caller;
  /** Whether it was under way at an earlier look already; most answers are given before the second one. */
  lasting: boolean;
}

/** Breaks off answers whose key stops being good while they are given: streams and long polls would outlive it. */
@Injectable()
export class OpenAnswers implements OnApplicationShutdown {
  readonly #open = new Map<Response, OpenAnswer>();
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;

  constructor(private readonly stored: StoredKeys) {}

  /** How many answers are watched. */
  get size(): number {
    return this.#open.size;
  }

  /** Watches an answer until it is given. Callers whose key cannot be revoked need no watching. */
  watch(caller: Caller, response: Response): void {
    if (!this.stored.knows(caller)) return;
    this.#open.set(response, { caller, lasting: false });
    response.once('close', () => this.#open.delete(response));
    this.#timer ??= setInterval(() => void this.check(), CHECK_MS).unref();
  }

  /** Looks at the keys of all answers under way. A key that cannot be asked about counts as good. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  onApplicationShutdown(): void {
    this.#stop();
  }

  async #check(): Promise<void> {
    if (this.#open.size === 0) {
      this.#stop();
      return;
    }
    const lasting: [Response, Caller][] = [];
    for (const [response, answer] of this.#open) {
      if (answer.lasting) lasting.push([response, answer.caller]);
      answer.lasting = true;
    }
    const ended = await this.#endedAmong(new Set(lasting.map(([, caller]) => caller)));
    for (const [response, caller] of lasting) if (ended.has(caller)) response.destroy();
  }

  async #endedAmong(callers: ReadonlySet<Caller>): Promise<ReadonlySet<Caller>> {
    const ended = new Set<Caller>();
    await Promise.all(
      [...callers].map(async (caller) => {
        const good = await this.stored.isStillGood(caller).catch(() => true);
        if (!good) ended.add(caller);
      }),
    );
    return ended;
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
