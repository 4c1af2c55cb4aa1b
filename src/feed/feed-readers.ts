import { Inject, Injectable } from '@nestjs/common';
import type { ServerResponse } from 'node:http';
import { HeldRequests, type HeldRequest } from '../http/held-requests.js';
import { FEED_LIMITS, type FeedLimits } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { TooManyFeedReaders } from './feed.errors.js';

/** Keeps account of the requests that are held open for events. */
@Injectable()
export class FeedReaders {
  #open = 0;

  constructor(
    private readonly requests: HeldRequests,
    private readonly metrics: FeedMetrics,
    @Inject(FEED_LIMITS) private readonly limits: FeedLimits,
  ) {}

  /**
   * Admits the reader whose answer this is; closing it gives its place to others.
   * @throws TooManyFeedReaders when this process is full
   */
  open(response: ServerResponse): HeldRequest {
    if (this.#open >= this.limits.maxReaders) throw new TooManyFeedReaders();
    const request = this.requests.open(response);
    this.#count(1);
    return {
      signal: request.signal,
      close: () => {
        request.close();
        this.#count(-1);
      },
    };
  }

  #count(change: number): void {
    this.#open += change;
    this.metrics.showReaders(this.#open);
  }
}
