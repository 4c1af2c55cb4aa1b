import type { ServerResponse } from 'node:http';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import type { Response } from 'express';
import { OpenItems } from '@longshore/common/open-items';
import type { Quota } from '../../quotas/quota.js';
import { endDatabaseTurn } from './database-turns.js';
import { Drain } from './drain.js';

/** Marks the span of a request that is held open. */
export const HELD = { 'longshore.held': true } as const;

/** A request that is held open: its response waits for something to come. */
export interface HeldRequest {
  /** Aborts when the client is gone or the service stops. */
  readonly signal: AbortSignal;
  /** Aborts the signal; the place in the quota is free at once. */
  cancel(): void;
  /** Call it when the response is sent. */
  close(): void;
}

/** Ends requests that are held open when their client goes away or the service stops. */
@Injectable()
export class HeldRequests implements OnModuleDestroy {
  readonly #open = new OpenItems<AbortController>();
  readonly #held = new WeakSet<ServerResponse>();
  #waiting = 0;

  constructor(private readonly drain: Drain) {
    drain.signal.addEventListener('abort', () => this.onModuleDestroy(), { once: true });
  }

  /** Requests that are held open now. */
  get size(): number {
    return this.#waiting;
  }

  /** Whether the request is, or was, held open: its duration says nothing about the service. */
  wasHeld(response: ServerResponse): boolean {
    return this.#held.has(response);
  }

  /**
   * @param quota of which the request takes a place; null: the request is answered as soon as the service can
   * @throws OverLimit
   */
  open(response: Response, quota: Quota | null): HeldRequest {
    quota?.take(keyOf(response));
    return this.#begin(response, quota);
  }

  /** As `open`; null when the quota has no place, which does not count as a refusal. */
  tryOpen(response: Response, quota: Quota): HeldRequest | null {
    return quota.tryTake(keyOf(response)) ? this.#begin(response, quota) : null;
  }

  onModuleDestroy(): void {
    for (const controller of this.#open.list()) controller.abort();
  }

  #begin(response: Response, quota: Quota | null): HeldRequest {
    const keyId = keyOf(response);
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    if (response.closed || response.destroyed || this.drain.signal.aborted) abort();
    response.once('close', abort);
    const forget = this.#open.add(controller);
    if (quota !== null) {
      this.#held.add(response);
      this.#waiting += 1;
      endDatabaseTurn(response);
    }
    const close = (): void => {
      response.off('close', abort);
      if (!forget() || quota === null) return;
      this.#waiting -= 1;
      quota.release(keyId);
    };
    const cancel = (): void => {
      abort();
      close();
    };
    return { signal: controller.signal, cancel, close };
  }
}

function keyOf({ req }: Response): string {
  return req.user?.id ?? '';
}
