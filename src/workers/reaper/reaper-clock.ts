import { Injectable } from '@nestjs/common';

/** One moment on two clocks, in milliseconds. */
export interface Moment {
  /** Never goes back and is never set; it may stand still while the machine is suspended. */
  readonly steady: number;
  /** What the workers' heartbeats are stamped with in a pool of this process; it may be set. */
  readonly wall: number;
}

/** The clocks that the reaper goes by. */
@Injectable()
export class ReaperClock {
  now(): Moment {
    return { steady: performance.now(), wall: Date.now() };
  }
}
