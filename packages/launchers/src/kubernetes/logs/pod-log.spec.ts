import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'vitest';
import { Backoff } from '@longshore/common/backoff';
import { FakeClock } from '@longshore/worker/testing/fake-clock';
import { readPodLog, type LogQuery, type LogSource } from './pod-log.js';

const NEVER = new AbortController().signal;

const line = (second: number, text: string) =>
  Buffer.from(`2026-11-23T22:00:0${second}.000000001Z ${text}\n`);

/** Gives the chunks, and then nothing until the connection is ended. */
async function* silentAfter(
  signal: AbortSignal,
  ...chunks: readonly Buffer[]
): AsyncGenerator<Buffer, void, undefined> {
  yield* chunks;
  await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}

async function* complete(...chunks: readonly Buffer[]): AsyncGenerator<Buffer, void, undefined> {
  yield* chunks;
}

type Connection = (signal: AbortSignal) => AsyncIterable<Buffer>;

describe('the log of a container', () => {
  let clock: FakeClock;
  let end: AbortController;
  let queries: LogQuery[];

  beforeEach(() => {
    clock = new FakeClock();
    end = new AbortController();
    queries = [];
  });

  /** The texts of the log that these connections give, as they are read. */
  function read(...connections: readonly Connection[]): { texts: string[]; isDone: () => boolean } {
    const left = [...connections];
    const source: LogSource = {
      open: (query, signal) => {
        queries.push(query);
        return Promise.resolve(left.shift()?.(signal) ?? complete());
      },
      hasEnded: () => end.signal.aborted,
      untilChanged: (signal) =>
        new Promise((resolve) => {
          for (const each of [end.signal, signal]) each.addEventListener('abort', () => resolve());
        }),
    };
    const texts: string[] = [];
    let isDone = false;
    const reading = async () => {
      const backoff = new Backoff({ firstMs: 1, maxMs: 1 }, () => 1);
      for await (const { text } of readPodLog(source, clock, backoff, NEVER)) texts.push(text);
      isDone = true;
    };
    void reading();
    return { texts, isDone: () => isDone };
  }

  it('ends although its connection stays open and silent after the end of the container', async () => {
    const { texts, isDone } = read(
      (signal) => silentAfter(signal, line(1, 'a')),
      () => complete(line(1, 'a'), line(2, 'rest')),
    );
    await clock.pass(3_600_000);
    assert.deepEqual([texts, queries.length], [['a'], 1]);
    end.abort();
    await clock.pass(9_999);
    assert.equal(queries.length, 1);
    await clock.pass(2);
    assert.deepEqual([texts, isDone()], [['a', 'rest'], true]);
    assert.deepEqual(
      queries.map(({ follow }) => follow),
      [true, false],
    );
  });

  it('is read on for as long as its connection gives lines after the end of the container', async () => {
    const { texts, isDone } = read(
      async function* () {
        for (let second = 1; second <= 3; second++) {
          await clock.sleep(9_000);
          yield line(second, `line ${second}`);
        }
      },
      () => complete(line(3, 'line 3')),
    );
    end.abort();
    await clock.pass(27_000);
    await clock.pass(1);
    assert.deepEqual([texts, isDone()], [['line 1', 'line 2', 'line 3'], true]);
  });

  it('is read again when the last connection stays silent for half a minute', async () => {
    end.abort();
    const { texts, isDone } = read(
      (signal) => silentAfter(signal, line(1, 'a')),
      () => complete(line(1, 'a'), line(2, 'b')),
    );
    await clock.pass(29_999);
    assert.deepEqual([texts, isDone()], [['a'], false]);
    await clock.pass(2);
    assert.deepEqual([texts, isDone()], [['a', 'b'], true]);
  });
});
