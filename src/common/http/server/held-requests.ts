import type { ServerResponse } from 'node:http';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Drain } from './drain.js';

/** Marks the span of a request that is held open. */
export const HELD = { 'longshore.held': true } as const;

/** A request that is held open: its response waits for something to come. */
export interface HeldRequest {
  /** Aborts when the client is gone or the service stops. */
  readonly signal: AbortSignal;
  /** Call it when the response is sent. */
  close(): void;
}

/** Ends requests that are held open when their client goes away or the service stops. */
@Injectable()
export class HeldRequests implements OnModuleDestroy {
  readonly #open = new Set<AbortController>();
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

  /** @param mayWait false: the request is answered as soon as the service can */
  open(response: ServerResponse, mayWait = true): HeldRequest {
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    if (response.closed || response.destroyed || this.drain.signal.aborted) abort();
    response.once('close', abort);
    this.#open.add(controller);
    if (mayWait) {
      this.#held.add(response);
      this.#waiting += 1;
    }
    return {
      signal: controller.signal,
      close: () => {
        response.off('close', abort);
        if (this.#open.delete(controller) && mayWait) this.#waiting -= 1;
      },
    };
  }

  onModuleDestroy(): void {
    for (const controller of this.#open) controller.abort();
  }
}
