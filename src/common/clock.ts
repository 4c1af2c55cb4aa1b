import { Injectable } from '@nestjs/common';
import { monotonicMs } from './monotonic-ms.js';

/** The clocks of this process; tests set them. The time of runs is the database's. */
@Injectable()
export class Clock {
  /** Monotonic milliseconds, for ages and timeouts; they may stand still while the machine is suspended. */
  now(): number {
    return monotonicMs();
  }

  /** Milliseconds since 1970; somebody may set this clock. */
  epochMs(): number {
    return Date.now();
  }
}
