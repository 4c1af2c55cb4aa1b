import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { EventStreamReader } from '../runs/event-stream.js';
import { toFeedEvent } from '../history/feed-tail.js';
import type { FeedEvent, Tail } from '../history/history.js';
import type { RecordedService } from '../history/recorded-service.js';
import { until } from '../service-process.js';

const PAUSE_MS = 100;

/**
 * A reader that follows the feed of a topic from its start and does what the documentation says: on 410 it goes on from
 * the cursor that the answer names.
 */
abstract class FeedFollower {
  abstract readonly reader: string;
  protected readonly received: FeedEvent[] = [];
  /** Where answers of 410 sent it back: how many events it had by then, and the cursor that was named. */
  readonly sentBack: { readonly at: number; readonly to: string }[] = [];
  #cursor: string | undefined;

  constructor(readonly topic: string) {}

  /** How many events it was given. */
  get count(): number {
    return this.received.length;
  }

  get last(): FeedEvent | undefined {
    return this.received.at(-1);
  }

  /**
   * What the reader has in the end: on 410 it forgets what came after the named cursor. A cursor of an earlier epoch names the
   * same place as the feed's own, and is replaced by that.
   * @param feed read when all is quiet
   */
  view(feed: readonly FeedEvent[]): Tail {
    const kept: FeedEvent[] = [];
    for (const [i, event] of this.received.entries()) {
      this.#forget(kept, i, feed);
      kept.push(event);
    }
    this.#forget(kept, this.received.length, feed);
    const events = kept.map((event, i) => ({ ...event, cursor: feed[i]?.cursor ?? event.cursor }));
    return { reader: this.reader, topic: this.topic, events };
  }

  protected query(limits: Readonly<Record<string, string>>): string {
    const query = new URLSearchParams({ topic: this.topic, ...limits });
    if (this.#cursor !== undefined) query.set('after', this.#cursor);
    return query.toString();
  }

  protected take(event: FeedEvent): void {
    this.received.push(event);
    this.#cursor = event.cursor;
  }

  protected goBack(detail: string): void {
    const [, to] = /'([\w-]+)'$/.exec(detail) ?? [];
    assert.ok(to !== undefined, `${this.reader}: 410 names no cursor: ${detail}`);
    this.sentBack.push({ at: this.received.length, to });
    this.#cursor = to;
  }

  #forget(kept: FeedEvent[], received: number, feed: readonly FeedEvent[]): void {
    for (const { to } of this.sentBack.filter(({ at }) => at === received)) {
      const last = feed.findIndex(({ cursor }) => cursor === to);
      assert.ok(last >= 0, `${this.reader}: 410 named ${to}, which is no cursor of the feed`);
      assert.ok(last < kept.length - 1, `${this.reader} was sent back to where it was`);
      kept.length = last + 1;
    }
  }
}

/** Reads page by page. */
export class PageFollower extends FeedFollower {
  readonly reader = `reader of ${this.topic}`;
  #stopped = false;
  readonly #loop: Promise<void>;

  constructor(
    private readonly service: RecordedService,
    topic: string,
  ) {
    super(topic);
    this.#loop = this.#follow();
    // stop() reports what is wrong.
    this.#loop.catch(() => undefined);
  }

  /** Reads on until a page is empty, and ends. @throws AssertionError when an answer was wrong */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#loop;
  }

  async #follow(): Promise<void> {
    for (;;) {
      const wasStopped = this.#stopped;
      const path = `/feed?${this.query({ limit: '500', wait: wasStopped ? '0' : '1' })}`;
      const answer = await this.service.answer({ method: 'GET', path, timeoutMs: 3000 });
      if (answer?.status === 410) {
        this.goBack(answer.body.detail);
      } else if (answer === undefined || answer.status === 503) {
        await sleep(PAUSE_MS);
      } else {
        assert.equal(answer.status, 200, `${this.reader}: ${JSON.stringify(answer.body)}`);
        for (const event of answer.body.events) this.take(toFeedEvent(event));
        if (wasStopped && answer.body.events.length === 0) return;
      }
    }
  }
}

/** Keeps a stream open, and opens it again where it ended. */
export class StreamFollower extends FeedFollower {
  readonly reader = `stream of ${this.topic}`;
  #stream: EventStreamReader | undefined;
  #stopped = false;
  readonly #loop: Promise<void>;

  constructor(
    private readonly url: string,
    private readonly key: string,
    topic: string,
  ) {
    super(topic);
    this.#loop = this.#follow();
    this.#loop.catch(() => undefined);
  }

  /** Waits until it has the event, and ends. @throws AssertionError when it does not come, or an answer was wrong */
  async stop(last: FeedEvent | undefined): Promise<void> {
    const wanted = idOf(last);
    // Its loop ends by an error only.
    await Promise.race([
      until(() => idOf(this.last) === wanted, `${this.reader} has the event ${wanted}`),
      this.#loop,
    ]);
    this.#stopped = true;
    this.#stream?.close();
    await this.#loop;
  }

  async #follow(): Promise<void> {
    while (!this.#stopped) {
      const stream = await this.#open();
      if (stream === undefined || stream.response.statusCode === 503) {
        await sleep(PAUSE_MS);
        continue;
      }
      this.#stream = stream;
      await stream.until(() => stream.ended !== undefined, 'the end of the stream').catch(() => undefined);
      stream.close();
      if (stream.response.statusCode === 410) this.goBack(JSON.parse(stream.unread).detail);
      else assert.equal(stream.response.statusCode, 200, `${this.reader}: ${stream.unread}`);
    }
  }

  async #open(): Promise<EventStreamReader | undefined> {
    const path = `/feed/stream?${this.query({})}`;
    const onEvent = ({ data }: { data: object }): void => this.take(toFeedEvent(data));
    return EventStreamReader.open(this.url, path, { key: this.key }, onEvent).catch(() => undefined);
  }
}

function idOf(event: FeedEvent | undefined): string {
  return event === undefined
    ? 'none'
    : [event.runId, event.attempt, event.type, event.t, event.mark].join(' ');
}
