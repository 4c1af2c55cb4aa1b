import { untilWoken } from '../../common/notifications/until-woken.js';

/** A claim that wants to know when its worker gets room. */
export interface RoomWatch {
  /** Forgets what was heard so far; call it before each look at the queue. */
  reset(): void;
  /** Resolves true when the worker has got room since the last reset, false when the signal aborts. */
  news(signal: AbortSignal): Promise<boolean>;
  /** Ends the watch. */
  close(): void;
}

interface Watching {
  isNews: boolean;
  wake: (() => void) | undefined;
}

/** Tells claims that their worker has got room, while they wait. What nobody waits for is not kept. */
export class RoomNotifications {
  readonly #byWorker = new Map<string, Set<Watching>>();

  /** Watches a worker. */
  watch(workerId: string): RoomWatch {
    const watching: Watching = { isNews: false, wake: undefined };
    const others = this.#byWorker.get(workerId) ?? new Set();
    this.#byWorker.set(workerId, others.add(watching));
    return {
      reset: () => void (watching.isNews = false),
      news: async (signal) => {
        if (watching.isNews) return true;
        const isNews = await untilWoken<true>({ signal }, (wake) => {
          watching.wake = () => wake(true);
          return () => void (watching.wake = undefined);
        });
        return isNews !== null;
      },
      close: () => {
        others.delete(watching);
        if (others.size === 0) this.#byWorker.delete(workerId);
      },
    };
  }

  /** The worker has got room. */
  tell(workerId: string): void {
    for (const watching of this.#byWorker.get(workerId) ?? []) {
      watching.isNews = true;
      watching.wake?.();
    }
  }
}
