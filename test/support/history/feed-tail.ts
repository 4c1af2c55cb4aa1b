import { setTimeout as sleep } from 'node:timers/promises';
import type { FeedEvent, Tail } from './history.js';
import { toEntry, type RecordedService } from './recorded-service.js';
import type { WireAnswer } from './wire.js';

/** A reader that follows the feed of a topic from its start, page by page, now from this server and now from that. */
export class FeedTail implements Tail {
  readonly reader: string;
  readonly events: FeedEvent[] = [];
  #stopped = false;
  readonly #loop: Promise<void>;

  constructor(
    private readonly service: RecordedService,
    readonly topic: string,
  ) {
    this.reader = `reader of ${topic}`;
    this.#loop = this.#follow();
  }

  /** Reads on until a page is empty, and ends. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
  }

  async #follow(): Promise<void> {
    for (let server = 0; ; server += 1) {
      const waitS = this.#stopped ? 0 : 1;
      const wasStopped = this.#stopped;
      const page = await readFeedPage(this.service, server, this.topic, this.events.at(-1)?.cursor, waitS);
      if (page === undefined) {
        await sleep(50);
        continue;
      }
      this.events.push(...page);
      if (wasStopped && page.length === 0) return;
    }
  }
}

/** A whole feed from its start. @throws Error when the servers do not answer */
export async function readFeed(service: RecordedService, topic: string): Promise<FeedEvent[]> {
  const events: FeedEvent[] = [];
  for (let server = 0; ; server += 1) {
    const page = await readFeedPage(service, server, topic, events.at(-1)?.cursor, 0);
    if (page === undefined) throw new Error(`the feed of ${topic} cannot be read`);
    if (page.length === 0) return events;
    events.push(...page);
  }
}

async function readFeedPage(
  service: RecordedService,
  server: number,
  topic: string,
  after: string | undefined,
  waitS: number,
): Promise<FeedEvent[] | undefined> {
  const query = new URLSearchParams({ topic, limit: '500', ...(after === undefined ? {} : { after }) });
  if (waitS > 0) query.set('wait', String(waitS));
  const path = `/feed?${query.toString()}`;
  const answer = await service.ask(server, { method: 'GET', path, timeoutMs: waitS * 1000 + 2000 });
  return answer?.body.events.map(toFeedEvent);
}

/** An event of a page, as far as histories speak of it. */
export function toFeedEvent(event: WireAnswer['body']): FeedEvent {
  const { type, t, mark } = toEntry(event);
  return { cursor: event.cursor, runId: event.run_id, attempt: event.attempt, type, t, mark };
}
