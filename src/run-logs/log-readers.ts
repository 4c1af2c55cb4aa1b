import { Inject, Injectable } from '@nestjs/common';
import { BoundedReaders } from '../common/http/server/bounded-readers.js';
import { HeldRequests } from '../common/http/server/held-requests.js';
import { LOG_LIMITS, type LogLimits } from './log-limits.js';
import { LogMetrics } from './log-metrics.js';
import { TooManyLogReaders } from './run-logs.errors.js';

/** Keeps account of the requests that are held open for lines. */
@Injectable()
export class LogReaders extends BoundedReaders {
  constructor(requests: HeldRequests, metrics: LogMetrics, @Inject(LOG_LIMITS) { maxReaders }: LogLimits) {
    super(requests, {
      max: maxReaders,
      show: (open) => metrics.showReaders(open),
      refuse: () => new TooManyLogReaders(),
    });
  }
}
