import { Inject, Injectable } from '@nestjs/common';
import { BoundedReaders } from '../common/http/server/bounded-readers.js';
import { HeldRequests } from '../common/http/server/held-requests.js';
import { FEED_LIMITS, type FeedLimits } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { TooManyFeedReaders } from './feed.errors.js';

/** Keeps account of the requests that are held open for events. */
@Injectable()
export class FeedReaders extends BoundedReaders {
  constructor(requests: HeldRequests, metrics: FeedMetrics, @Inject(FEED_LIMITS) { maxReaders }: FeedLimits) {
    super(requests, {
      max: maxReaders,
      show: (open) => metrics.showReaders(open),
      refuse: () => new TooManyFeedReaders(),
    });
  }
}
