import { untilWoken, type WaitEnds } from './until-woken.js';
import type { TopicNotifications, WaitingReader } from './topic-notifications.js';

/** One reader's view of a topic's news. */
export class TopicWatch {
  #open = true;

  constructor(
    private readonly topic: TopicNotifications,
    private readonly isListening: () => boolean,
    private readonly release: () => void,
  ) {}

  /** Changes with everything that is heard of the topic. Read it before the feed, and give it to `news` afterwards. */
  get version(): number {
    return this.topic.version;
  }

  /** Takes note that nothing was behind a place. @param since version from before the look */
  noteEnd(place: number | null, end: number, since: number): void {
    if (this.isListening()) this.topic.noteEnd(place, end, since);
  }

  /** The position behind which the feed goes on after a place behind which a look would find nothing; else undefined. */
  endBehind(place: number | null): number | undefined {
    return this.isListening() ? this.topic.endBehind(place) : undefined;
  }

  /**
   * Waits until there may be events that a reader has not seen, and it is the readers' turn.
   * @param after position up to which it has
   * @param since version from before it looked
   * @returns false when it ended without news
   */
  news(after: number, since: number, ends: WaitEnds): Promise<boolean> {
    return this.#wait({ after, since }, ends);
  }

  /** Waits for the readers' next turn if they have just had one; true unless it ended before. */
  turn(ends: WaitEnds): Promise<boolean> {
    return this.topic.isBusy ? this.#wait(undefined, ends) : Promise.resolve(!ends.signal.aborted);
  }

  /** Ends the watching. */
  close(): void {
    if (this.#open) this.release();
    this.#open = false;
  }

  async #wait(seen: WaitingReader['seen'], ends: WaitEnds): Promise<boolean> {
    const isTurn = await untilWoken<true>(ends, (wake) => {
      const reader: WaitingReader = { seen, wake: () => wake(true) };
      this.topic.wait(reader);
      return () => this.topic.leave(reader);
    });
    return isTurn !== null;
  }
}
