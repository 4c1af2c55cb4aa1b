import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, it } from 'vitest';
import { readChunks } from './output-chunks.js';

const RUNNING = new Promise<never>(() => undefined);

describe('readChunks', () => {
  it('gives the chunks of several streams as they arrive', async () => {
    const [one, two] = [new PassThrough(), new PassThrough()];
    const chunks = readChunks([source('one', one), source('two', two)], RUNNING);
    one.write('a');
    assert.deepEqual(await nextText(chunks), ['one', 'a']);
    two.write('b');
    assert.deepEqual(await nextText(chunks), ['two', 'b']);
    one.end('c');
    assert.deepEqual(await nextText(chunks), ['one', 'c']);
    two.end();
    assert.equal((await chunks.next()).done, true);
  });

  it('reads only as fast as its consumer', async () => {
    let produced = 0;
    const endless = new Readable({
      highWaterMark: 1024,
      read() {
        produced += 512;
        this.push(Buffer.alloc(512));
      },
    });
    const chunks = readChunks([source('one', endless)], RUNNING);
    await chunks.next();
    await sleep(50);
    assert.ok(produced <= 4096, `${produced} bytes were produced for one read`);
    await chunks.return();
    endless.destroy();
  });

  it('ends when a stream stays open and silent after the end of the program', async () => {
    const held = new PassThrough();
    const chunks = readChunks([source('one', held)], Promise.resolve(), 30);
    held.write('last words');
    assert.deepEqual(await nextText(chunks), ['one', 'last words']);
    assert.equal((await chunks.next()).done, true);
    assert.equal(held.destroyed, true);
  });

  it('continues after the end of the program while output arrives', async () => {
    const busy = new PassThrough();
    const chunks = readChunks([source('one', busy)], Promise.reject(new Error('unknown end')), 500);
    for (let i = 0; i < 5; i++) {
      const next = nextText(chunks);
      await sleep(150);
      busy.write(String(i));
      assert.deepEqual(await next, ['one', String(i)]);
    }
    await chunks.return();
  });

  it('treats a broken stream as ended', async () => {
    const broken = new PassThrough();
    const chunks = readChunks([source('one', broken)], RUNNING);
    const next = chunks.next();
    broken.destroy(new Error('connection reset'));
    assert.equal((await next).done, true);
  });

  it('discards the rest when its consumer stops, and releases the streams at the end', async () => {
    const stream = new PassThrough({ highWaterMark: 16 });
    const end = new EventEmitter();
    const ended = once(end, 'end');
    const chunks = readChunks([source('one', stream)], ended);
    stream.write('read');
    await chunks.next();
    await chunks.return();
    for (let i = 0; i < 100; i++) stream.write(Buffer.alloc(16));
    await sleep(20);
    assert.ok(stream.readableLength + stream.writableLength <= 32, 'what nobody reads piles up');
    end.emit('end');
    await sleep(5);
    assert.equal(stream.destroyed, true);
  });

  it('adds no listener per chunk', async () => {
    const stream = new PassThrough();
    const chunks = readChunks([source('one', stream)], RUNNING);
    for (let i = 0; i < 50; i++) {
      stream.write('x');
      await chunks.next();
    }
    assert.equal(stream.listenerCount('readable'), 1);
    await chunks.return();
    assert.equal(stream.listenerCount('readable'), 0);
  });
});

function source(stream: string, readable: Readable) {
  return { stream, readable };
}

async function nextText(chunks: AsyncIterator<{ stream: string; bytes: Buffer }>): Promise<unknown> {
  const { value } = await chunks.next();
  return value === undefined ? undefined : [value.stream, value.bytes.toString()];
}
