import type { OnModuleDestroy } from '@nestjs/common';
import type { Notifications } from '../../database/notifications.js';
import { Topic } from './topic.js';

/** Topics without readers whose end or pause is remembered. */
const MAX_REMEMBERED = 10_000;

/** Wakes the readers of topics by notifications of a PostgreSQL channel, `<last position> <topic>`, without queries. */
export class ChannelNotifications implements OnModuleDestroy {
  /** Topics without readers are in the order in which they lost the last one. */
  readonly #topics = new Map<string, Topic>();
  #unsubscribe: (() => void) | undefined;

  constructor(
    private readonly notifications: Pick<Notifications, 'subscribe' | 'isListening'>,
    private readonly channel: string,
  ) {}

  get subscribed(): string[] {
    return [...this.#topics.values()].filter(({ readers }) => readers > 0).map(({ name }) => name);
  }

  /** Wakes the readers of a topic that has changed without a notification. */
  invalidate(name: string): void {
    this.#topics.get(name)?.invalidate();
  }

  /** Adds a reader to a topic. Every call needs one of `unsubscribe`. */
  subscribe(name: string): Topic {
    this.#unsubscribe ??= this.notifications.subscribe(this.channel, (payload) => this.#receive(payload));
    const topic =
      this.#topics.get(name) ?? new Topic(name, () => this.notifications.isListening(this.channel));
    topic.readers += 1;
    this.#topics.set(name, topic);
    return topic;
  }

  unsubscribe(topic: Topic): void {
    topic.readers -= 1;
    if (topic.readers > 0) return;
    topic.cancelWake();
    this.#topics.delete(topic.name);
    if (!topic.knowsEnd && !topic.isPaused) return;
    this.#topics.set(topic.name, topic);
    if (this.#topics.size <= MAX_REMEMBERED) return;
    for (const { name, readers } of this.#topics.values()) {
      if (readers === 0) return void this.#topics.delete(name);
    }
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
    for (const topic of this.#topics.values()) topic.cancelWake();
  }

  #receive(payload: string | null): void {
    if (payload === null) {
      for (const topic of this.#topics.values()) topic.invalidate();
      return;
    }
    const space = payload.indexOf(' ');
    this.#topics.get(payload.slice(space + 1))?.announce(Number(payload.slice(0, space)));
  }
}
