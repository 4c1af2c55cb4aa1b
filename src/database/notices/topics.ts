import type { CommitNotice } from './commit-notice.js';
import type { NoticeSource } from './commit-notices.js';
import { Topic } from './topic.js';

/** The parts of notices that name what others wait for; `topics` and `logs` with the position of the newest entry. */
export type NamingPart = 'topics' | 'logs' | 'runs' | 'freedWorkers';

/** Topics without readers whose end or pause is remembered. */
const MAX_REMEMBERED = 10_000;

/** Wakes those who wait for what one part of the commit notices names, without queries. */
export class Topics {
  /** Topics without readers are in the order in which they lost the last one. */
  readonly #topics = new Map<string, Topic>();
  #unsubscribe: (() => void) | undefined;

  constructor(
    private readonly notices: NoticeSource,
    private readonly part: NamingPart,
  ) {}

  get subscribed(): string[] {
    return [...this.#topics.values()].filter(({ readers }) => readers > 0).map(({ name }) => name);
  }

  /** Wakes the readers of a topic that has changed without a notice. */
  invalidate(name: string): void {
    this.#topics.get(name)?.invalidate();
  }

  /** Adds a reader to a topic. Every call needs one of `unsubscribe`. */
  subscribe(name: string): Topic {
    this.#unsubscribe ??= this.notices.subscribe((notice) => this.#receive(notice));
    const topic = this.#topics.get(name) ?? new Topic(name, () => this.notices.isListening);
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

  close(): void {
    this.#unsubscribe?.();
    for (const topic of this.#topics.values()) topic.cancelWake();
  }

  #receive(notice: CommitNotice | null): void {
    if (notice === null) {
      for (const topic of this.#topics.values()) topic.invalidate();
      return;
    }
    const named = notice[this.part];
    if (named === undefined) return;
    if (Array.isArray(named)) for (const name of named) this.#topics.get(name)?.announce();
    else for (const [name, position] of Object.entries(named)) this.#topics.get(name)?.announce(position);
  }
}
