import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { toFeedEvent } from '../history/feed-tail.js';
import type { FeedEvent, Tail } from '../history/history.js';
import type { RecordedService } from '../history/recorded-service.js';

/**
 * A reader that follows the feed of a topic from its start and does what the documentation says: on 410 it forgets what
 * came after the cursor that the answer names, and goes on from there.
 */
export class ResumingTail implements Tail {
  readonly reader: string;
  readonly events: FeedEvent[] = [];
  /** How many events each 410 took back. */
  readonly takenBack: number[] = [];
  #stopped = false;
  readonly #loop: Promise<void>;

  constructor(
    private readonly service: RecordedService,
    readonly topic: string,
  ) {
    this.reader = `reader of ${topic}`;
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
      const after = this.events.at(-1)?.cursor;
      const query = new URLSearchParams({ topic: this.topic, limit: '500', ...(after && { after }) });
      const path = `/feed?${query.toString()}${wasStopped ? '' : '&wait=1'}`;
      const answer = await this.service.answer({ method: 'GET', path, timeoutMs: 3000 });
      if (answer?.status === 410) {
        this.#takeBack(answer.body.detail);
      } else if (answer === undefined || answer.status === 503) {
        await sleep(100);
      } else {
        assert.equal(answer.status, 200, `${this.reader}: ${JSON.stringify(answer.body)}`);
        this.events.push(...answer.body.events.map(toFeedEvent));
        if (wasStopped && answer.body.events.length === 0) return;
      }
    }
  }

  #takeBack(detail: string): void {
    const [, named] = /'([\w-]+)'$/.exec(detail) ?? [];
    const last = this.events.findIndex(({ cursor }) => cursor === named);
    assert.ok(last >= 0, `${this.reader}: 410 names a cursor that was never given: ${detail}`);
    this.takenBack.push(this.events.splice(last + 1).length);
  }
}
