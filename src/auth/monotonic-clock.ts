import { Injectable } from '@nestjs/common';

/** Monotonic milliseconds, for ages and timeouts; tests replace it. */
@Injectable()
export class MonotonicClock {
  now(): number {
    return performance.now();
  }
}
