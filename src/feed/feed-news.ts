import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Notifications } from '../database/notifications.js';
import { FEED_CHANNEL } from './feed.repository.js';

interface Waiting {
  readonly after: number;
  readonly wake: (isNews: boolean) => void;
}

/** What is known of a topic while somebody watches it. */
interface Watched {
  watchers: number;
  /** Grows with everything that is heard of the topic; no two moments of any topic share a number. */
  version: number;
  /** Highest position announced. */
  announced: number;
  /** Version at which an unknown number of announcements may have been missed. */
  unsure: number;
  readonly waiting: Set<Waiting>;
}

/**
 * Tells readers that a feed has grown, from the announcements that every commit makes. It asks the database nothing,
 * however many readers wait.
 */
@Injectable()
export class FeedNews implements OnModuleDestroy {
  readonly #topics = new Map<string, Watched>();
  #version = 0;
  #unsubscribe: (() => void) | undefined;

  constructor(private readonly notifications: Notifications) {}

  /** Starts to watch a topic; what is announced from now on counts as news. Close it when done. */
  watch(topic: string): TopicWatch {
    this.#unsubscribe ??= this.notifications.subscribe(FEED_CHANNEL, (payload) => this.#hear(payload));
    const watched: Watched = this.#topics.get(topic) ?? {
      watchers: 0,
      version: this.#version,
      announced: 0,
      unsure: 0,
      waiting: new Set(),
    };
    watched.watchers += 1;
    this.#topics.set(topic, watched);
    return new TopicWatch(watched, () => {
      watched.watchers -= 1;
      if (watched.watchers === 0) this.#topics.delete(topic);
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
  }

  #hear(payload: string | null): void {
    if (payload === null) {
      for (const watched of this.#topics.values()) {
        watched.version = this.#nextVersion();
        watched.unsure = watched.version;
        wake(watched, () => true);
      }
      return;
    }
    const space = payload.indexOf(' ');
    const watched = this.#topics.get(payload.slice(space + 1));
    if (watched === undefined) return;
    watched.version = this.#nextVersion();
    watched.announced = Math.max(watched.announced, Number(payload.slice(0, space)));
    wake(watched, ({ after }) => after < watched.announced);
  }

  #nextVersion(): number {
    this.#version += 1;
    return this.#version;
  }
}

/** One reader's view of a topic's news. */
export class TopicWatch {
  #open = true;

  constructor(
    private readonly watched: Watched,
    private readonly release: () => void,
  ) {}

  /** Changes with everything that is heard of the topic. Read it before the feed, and give it to `news` afterwards. */
  get version(): number {
    return this.watched.version;
  }

  /**
   * Waits until there may be events that a reader has not seen.
   * @param after position up to which it has
   * @param since version from before it looked
   * @param waiting ends the waiting: the signal, or the time in milliseconds
   * @returns false when it ended without news
   */
  news(after: number, since: number, waiting: { signal: AbortSignal; forMs?: number }): Promise<boolean> {
    const { version, announced, unsure } = this.watched;
    const { signal, forMs } = waiting;
    if (signal.aborted) return Promise.resolve(false);
    if (version > since && (announced > after || unsure > since)) return Promise.resolve(true);
    return new Promise((resolve) => {
      const settle = (isNews: boolean): void => {
        clearTimeout(timer);
        signal.removeEventListener('abort', giveUp);
        this.watched.waiting.delete(entry);
        resolve(isNews);
      };
      const giveUp = (): void => settle(false);
      const entry: Waiting = { after, wake: settle };
      const timer = forMs === undefined ? undefined : setTimeout(giveUp, forMs);
      signal.addEventListener('abort', giveUp);
      this.watched.waiting.add(entry);
    });
  }

  /** Ends the watching. */
  close(): void {
    if (this.#open) this.release();
    this.#open = false;
  }
}

function wake({ waiting }: Watched, concerns: (entry: Waiting) => boolean): void {
  for (const entry of waiting) if (concerns(entry)) entry.wake(true);
}
