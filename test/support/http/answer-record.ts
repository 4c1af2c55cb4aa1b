import assert from 'node:assert/strict';
import type { Send, TestAnswer } from '../app/test-app.js';

interface Entry {
  /** When the answer came, by `performance.now()`. */
  readonly at: number;
  readonly ms: number;
  /** Undefined when the connection broke. */
  readonly answer: TestAnswer | undefined;
}

/** What an outage looked like from outside. */
export interface OutageFigures {
  /** Answers by status; `none` for connections that broke. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Milliseconds that refusals took: the 99th percentile and the longest. */
  readonly refusalP99: number;
  readonly refusalMax: number;
  /** Seconds from the return of the database to the first 2xx. */
  readonly recovery: number;
}

/** Remembers every answer that goes through it, and how long it took. */
export class AnswerRecord {
  readonly #entries: Entry[] = [];

  /** Sends as the given one does, and records. */
  watch(send: Send): Send {
    return async (...request) => {
      const started = performance.now();
      const record = (answer: TestAnswer | undefined): void => {
        const at = performance.now();
        this.#entries.push({ at, ms: at - started, answer });
      };
      try {
        const answer = await send(...request);
        record(answer);
        return answer;
      } catch (error) {
        record(undefined);
        throw error;
      }
    };
  }

  /** Answers so far that were no 2xx, broken connections included. */
  get refusals(): number {
    return this.#entries.filter(({ answer }) => answer === undefined || answer.status >= 300).length;
  }

  /** The status of every answer, broken connections apart. */
  statuses(): number[] {
    return this.#entries.flatMap(({ answer }) => (answer ? [answer.status] : []));
  }

  /** Whether there is a 2xx answer to anything after a time of `performance.now()`. */
  hasSuccessAfter(time: number): boolean {
    return this.#entries.some(({ at, answer }) => at > time && answer !== undefined && answer.status < 300);
  }

  /**
   * Checks that every answer but 2xx was the documented 503: with Retry-After, the body of an error, and no connection
   * broken; answers what the outage was like.
   * @param back when the database was back, by `performance.now()`
   */
  figures(back: number): OutageFigures {
    const statuses: Record<string, number> = {};
    const refusals: number[] = [];
    for (const { ms, answer } of this.#entries) {
      const status = String(answer?.status ?? 'none');
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (answer !== undefined && answer.status < 300) continue;
      assert.ok(answer, 'a connection broke');
      assert.equal(answer.status, 503, answer.text);
      assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
      assert.deepEqual(Object.keys(answer.body), ['detail']);
      refusals.push(ms);
    }
    refusals.sort((a, b) => a - b);
    const first = this.#entries.find(
      ({ at, answer }) => at > back && answer !== undefined && answer.status < 300,
    );
    assert.ok(first, 'nothing succeeded after the outage');
    return {
      statuses,
      refusalP99: Math.round(refusals[Math.floor(refusals.length * 0.99)] ?? 0),
      refusalMax: Math.round(refusals.at(-1) ?? 0),
      recovery: Math.round(first.at - back) / 1000,
    };
  }
}
