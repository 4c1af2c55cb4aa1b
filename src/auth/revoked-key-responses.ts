import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { Response } from 'express';
import { OpenItems } from '@longshore/common/open-items';
import type { Caller } from './access.js';
import { ApiKeyCache } from './api-key-cache.js';

/** Time between two checks, in milliseconds. With `MAX_AGE_MS` it stays below the 5 s in which a revocation takes effect. */
const CHECK_MS = 500;

interface OpenResponse {
  readonly response: Response;
  readonly caller: Caller;
  /** Whether it was open at an earlier check; most responses end before the second one. */
  isLong: boolean;
}

/** Closes responses whose key expires or is revoked while they are open: streams and long polls would outlive it. */
@Injectable()
export class RevokedKeyResponses implements OnApplicationShutdown {
  readonly #open = new OpenItems<OpenResponse>();
  #timer: NodeJS.Timeout | undefined;
  #checking: Promise<void> | undefined;

  constructor(private readonly keys: ApiKeyCache) {}

  /** Number of open responses whose key can be revoked. */
  get size(): number {
    return this.#open.size;
  }

  add(caller: Caller, response: Response): void {
    if (!this.keys.isRevocable(caller)) return;
    response.once('close', this.#open.add({ response, caller, isLong: false }));
    this.#timer ??= setInterval(() => void this.check(), CHECK_MS).unref();
  }

  /** Checks the keys of all open responses. A key that cannot be checked counts as valid. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  onApplicationShutdown(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #check(): Promise<void> {
    if (this.#open.size === 0) {
      this.onApplicationShutdown();
      return;
    }
    const open = this.#open.list();
    const long = open.filter(({ isLong }) => isLong);
    for (const response of open) response.isLong = true;
    const refused = new Set<Caller>();
    await Promise.all(
      [...new Set(long.map(({ caller }) => caller))].map(async (caller) => {
        const isValid = await this.keys.isStillValid(caller).catch(() => true);
        if (!isValid) refused.add(caller);
      }),
    );
    for (const { response, caller } of long) if (refused.has(caller)) response.destroy();
  }
}
