import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import type { ServerResponse } from 'node:http';
import { Drain } from '../http/drain.js';
import { FEED_LIMITS, type FeedLimits } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { TooManyFeedReaders } from './feed.errors.js';

/** A reader whose request is held open. */
export interface OpenReader {
  /** Aborts when the client is gone, or when the service is stopping and wants the request ended. */
  readonly signal: AbortSignal;
  /** Gives its place to others. */
  close(): void;
}

/** Keeps account of the requests that are held open for events, and ends them when the service stops. */
@Injectable()
export class FeedReaders implements OnModuleDestroy {
  readonly #open = new Set<AbortController>();

  constructor(
    private readonly drain: Drain,
    private readonly metrics: FeedMetrics,
    @Inject(FEED_LIMITS) private readonly limits: FeedLimits,
  ) {
    drain.signal.addEventListener('abort', () => this.#endAll(), { once: true });
  }

  /**
   * Admits the reader whose answer this is.
   * @throws TooManyFeedReaders when this process is full
   */
  open(response: ServerResponse): OpenReader {
    if (this.#open.size >= this.limits.maxReaders) throw new TooManyFeedReaders();
    const controller = new AbortController();
    const gone = (): void => controller.abort();
    if (response.closed || response.destroyed || this.drain.signal.aborted) controller.abort();
    response.once('close', gone);
    this.#open.add(controller);
    this.metrics.showReaders(this.#open.size);
    return {
      signal: controller.signal,
      close: () => {
        response.off('close', gone);
        this.#open.delete(controller);
        this.metrics.showReaders(this.#open.size);
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
