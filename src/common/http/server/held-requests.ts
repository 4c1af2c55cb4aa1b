import type { ServerResponse } from 'node:http';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Drain } from './drain.js';

/** What the span of a request says that lasts by intent: it waits for what is yet to come. */
export const HELD = { 'longshore.held': true } as const;

/** A request whose answer is held back. */
export interface HeldRequest {
  /** Aborts when the client is gone, or when the service is stopping and wants the request ended. */
  readonly signal: AbortSignal;
  /** Says that the request is held no longer. */
  close(): void;
}

/** Ends requests that are held open when their client goes away or the service stops. */
@Injectable()
export class HeldRequests implements OnModuleDestroy {
  readonly #open = new Set<AbortController>();
  readonly #held = new WeakSet<ServerResponse>();
  #waiting = 0;

  constructor(private readonly drain: Drain) {
    drain.signal.addEventListener('abort', () => this.#endAll(), { once: true });
  }

  /** Requests that are held open now. */
  get size(): number {
    return this.#waiting;
  }

  /** Whether the request of this answer is, or was, held open: how long it took says nothing about the service. */
  wasHeld(response: ServerResponse): boolean {
    return this.#held.has(response);
  }

  /**
   * Holds the request whose answer this is; close it when it is answered.
   * @param mayWait false for one that is answered as soon as the service can
   */
  open(response: ServerResponse, mayWait = true): HeldRequest {
    const controller = new AbortController();
    const gone = (): void => controller.abort();
    if (response.closed || response.destroyed || this.drain.signal.aborted) controller.abort();
    response.once('close', gone);
    this.#open.add(controller);
    if (mayWait) {
      this.#held.add(response);
      this.#waiting += 1;
    }
    return {
      signal: controller.signal,
      close: () => {
        response.off('close', gone);
        if (this.#open.delete(controller) && mayWait) this.#waiting -= 1;
      },
    };
  }

  onModuleDestroy(): void {
    this.#endAll();
  }

  #endAll(): void {
    for (const controller of this.#open) controller.abort();
  }
}
