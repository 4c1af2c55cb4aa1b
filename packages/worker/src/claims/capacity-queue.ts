import { Capacity, type Share } from './capacity.js';
import type { Constraints } from '../service-api/service-api.js';

/** A run's place in the line for capacity. */
export interface Place {
  /** Resolves with the run's share when it is its turn and there is room. */
  readonly granted: Promise<Share>;
  /** Leaves the line, or gives the share back. Harmless when done before. */
  leave(): void;
}

interface Waiter {
  readonly wanted: Constraints;
  share: Share | null;
  grant: (share: Share) => void;
}

/**
 * The line in which claimed runs wait for capacity. Strictly first come, first served: a large run is not overtaken for
 * ever by small ones. The worker claims nothing while somebody waits.
 */
export class CapacityQueue {
  private readonly waiting: Waiter[] = [];

  /** @param onRoom called when another claim has become worth while */
  constructor(
    private readonly capacity: Capacity,
    private readonly onRoom: () => void,
  ) {}

  /** Whether another claim could lead to work now. */
  hasRoom(): boolean {
    return this.waiting.length === 0 && this.capacity.hasFree();
  }

  /** Why the run could never be executed here; null when it could. */
  whyNever(wanted: Constraints): string | null {
    return this.capacity.whyNever(wanted);
  }

  enter(wanted: Constraints): Place {
    const waiter: Waiter = { wanted, share: null, grant: ignore };
    const granted = new Promise<Share>((resolve) => {
      waiter.grant = resolve;
    });
    this.waiting.push(waiter);
    this.admit();
    return { granted, leave: () => this.leave(waiter) };
  }

  private leave(waiter: Waiter): void {
    const index = this.waiting.indexOf(waiter);
    if (index >= 0) {
      this.waiting.splice(index, 1);
    } else if (waiter.share !== null) {
      this.capacity.release(waiter.share);
      waiter.share = null;
    } else {
      return;
    }
    this.admit();
    if (this.hasRoom()) this.onRoom();
  }

  private admit(): void {
    for (let first = this.waiting[0]; first !== undefined; first = this.waiting[0]) {
      const share = this.capacity.tryTake(first.wanted);
      if (share === null) return;
      first.share = share;
      this.waiting.shift();
      first.grant(share);
    }
  }
}

function ignore(): void {}
