import { Injectable } from '@nestjs/common';

/** Time that only goes forward, in milliseconds since some moment; for ages and deadlines, never for dates. */
@Injectable()
export class MonotonicClock {
  now(): number {
    return performance.now();
  }
}
