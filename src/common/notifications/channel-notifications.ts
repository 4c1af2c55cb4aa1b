import type { OnModuleDestroy } from '@nestjs/common';
import type { Notifications } from '../../database/notifications.js';
import { TopicNotifications } from './topic-notifications.js';
import { TopicWatch } from './topic-watch.js';

/** Topics without a reader of which it is remembered where they end. */
const MOST_REMEMBERED = 10_000;

/**
 * Tells readers that a topic has grown, from the announcements that every commit makes on a channel, each as
 * `<last position> <topic>`. It asks the database nothing, however many readers wait.
 */
export class ChannelNotifications implements OnModuleDestroy {
  /** Those without a reader are in the order in which they lost their last one. */
  readonly #topics = new Map<string, TopicNotifications>();
  #version = 0;
  #unsubscribe: (() => void) | undefined;

  constructor(
    private readonly notifications: Pick<Notifications, 'subscribe' | 'isListening'>,
    private readonly channel: string,
  ) {}

  /** Topics that somebody watches. */
  get watched(): string[] {
    return [...this.#topics].filter(([, news]) => news.watchers > 0).map(([topic]) => topic);
  }

  /** Has the readers of a topic look again, for a reason that no announcement tells. */
  nudge(topic: string): void {
    const news = this.#topics.get(topic);
    if (news !== undefined && news.watchers > 0) news.missed(this.#nextVersion());
  }

  /** Starts to watch a topic; what is announced from now on counts as news. Close it when done. */
  watch(topic: string): TopicWatch {
    this.#unsubscribe ??= this.notifications.subscribe(this.channel, (payload) => this.#hear(payload));
    const news = this.#topics.get(topic) ?? new TopicNotifications(this.#version);
    news.watchers += 1;
    this.#topics.set(topic, news);
    return new TopicWatch(
      news,
      () => this.notifications.isListening(this.channel),
      () => this.#release(topic, news),
    );
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
    for (const news of this.#topics.values()) news.close();
  }

  #release(topic: string, news: TopicNotifications): void {
    news.watchers -= 1;
    if (news.watchers > 0) return;
    news.close();
    this.#topics.delete(topic);
    if (!news.knowsEnd) return;
    this.#topics.set(topic, news);
    if (this.#topics.size > MOST_REMEMBERED) this.#forgetOldest();
  }

  #forgetOldest(): void {
    for (const [topic, { watchers }] of this.#topics) {
      if (watchers > 0) continue;
      this.#topics.delete(topic);
      return;
    }
  }

  #hear(payload: string | null): void {
    if (payload === null) {
      for (const [topic, news] of this.#topics) {
        if (news.watchers === 0) this.#topics.delete(topic);
        else news.missed(this.#nextVersion());
      }
      return;
    }
    const space = payload.indexOf(' ');
    const topic = payload.slice(space + 1);
    const news = this.#topics.get(topic);
    if (news === undefined) return;
    if (news.watchers === 0) this.#topics.delete(topic);
    else news.announced(Number(payload.slice(0, space)), this.#nextVersion());
  }

  #nextVersion(): number {
    this.#version += 1;
    return this.#version;
  }
}
