import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, it } from 'vitest';
import { READ_AHEAD, ReadAhead } from './read-ahead.js';

const CHUNK = Buffer.alloc(10, 'x');
/** Five chunks fast, ten slowly. */
const LIMITS = {
  fastBytes: 50,
  slowBytes: 100,
  pauseMs: 1,
};

/** A source that counts what was taken of it. */
class Source {
  taken = 0;
  readonly stream: Readable;

  constructor(chunks: number, error?: Error) {
    const make = function* (source: Source): Generator<Buffer> {
      for (; source.taken < chunks; source.taken += 1) yield CHUNK;
      if (error !== undefined) throw error;
    };
    this.stream = Readable.from(make(this), { objectMode: false, highWaterMark: 1 });
  }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await turn();
}

describe('output that is read ahead', () => {
  it('is taken to its end while nobody reads it', async () => {
    const source = new Source(12);
    const ahead = new ReadAhead(source.stream, LIMITS);
    await until(() => source.stream.readableEnded);
    assert.equal((await buffer(ahead.output)).length, 120);
  });

  it('stops its source while the reader is behind by the limit, and goes on with it', async () => {
    const source = new Source(100);
    const ahead = new ReadAhead(source.stream, LIMITS);
    await until(() => ahead.output.writableNeedDrain);
    const taken = source.taken;
    for (let turns = 0; turns < 100; turns += 1) await turn();
    assert.equal(source.taken, taken);
    assert.equal((await buffer(ahead.output)).length, 1000);
  });

  it('keeps nothing of the stops that are over', async () => {
    const source = new Source(1000);
    const ahead = new ReadAhead(source.stream, LIMITS);
    while (source.taken < 900) {
      await until(() => ahead.output.writableNeedDrain);
      ahead.output.read();
    }
    const listeners = ahead.output.listenerCount('close');
    assert.ok(listeners < 10, `${listeners} listeners`);
    ahead.output.destroy();
  });

  it('ends with the error of its source', async () => {
    const ahead = new ReadAhead(new Source(3, new Error('cut')).stream, LIMITS);
    await assert.rejects(buffer(ahead.output), /cut/);
  });

  it('leaves its source when its reader is gone', async () => {
    const source = new Source(1000);
    const ahead = new ReadAhead(source.stream, LIMITS);
    await until(() => ahead.output.writableNeedDrain);
    ahead.output.destroy();
    await until(() => source.stream.destroyed);
  });

  it('keeps the pace at which an engine drops nothing: both pipes of a container within half of its two seconds', () => {
    const CHUNK_BYTES = 16 * 1024;
    const bytes = (CHUNK_BYTES * 1_000) / READ_AHEAD.pauseMs;
    assert.ok(bytes >= 2 * 64 * 1024);
  });
});
