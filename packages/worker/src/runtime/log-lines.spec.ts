import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, it, vi } from 'vitest';
import fc from 'fast-check';
import { MAX_LINE_BYTES, PARTIAL_MS, splitLines, readChunks, type OutputChunk } from './log-lines.js';
import type { LogLine } from './runtime.js';

/** Output with a note, and with bytes that are missing. */
async function* counted(): AsyncGenerator<OutputChunk<LogLine['stream']>> {
  yield { stream: 'stdout', bytes: Buffer.from('one\r\ntw') };
  yield { stream: 'stderr', bytes: Buffer.from('é\n[worker] note\n'), isNote: true };
  yield { stream: 'stderr', bytes: Buffer.from('é\n') };
  yield { stream: 'stdout', bytes: Buffer.from('o and more\nrest') };
  yield { stream: 'stdout', at: 100, bytes: Buffer.from('\nlast') };
}

describe('splitLines', () => {
  it('counts the bytes of each stream, cuts a line where an earlier process did, and counts no words of the worker', async () => {
    const lines: LogLine[] = [];
    for await (const line of splitLines(counted(), Infinity, { stdout: 10, stderr: 0 })) lines.push(line);
    assert.deepEqual(lines, [
      { stream: 'stdout', text: 'one', bytes: { line: 0, end: 5 } },
      { stream: 'stderr', text: 'é' },
      { stream: 'stderr', text: '[worker] note' },
      { stream: 'stderr', text: 'é', bytes: { line: 0, end: 3 } },
      { stream: 'stdout', text: 'two a', part: 'start', bytes: { line: 5, end: 10 } },
      { stream: 'stdout', text: 'nd more', part: 'end', bytes: { line: 5, end: 18 } },
      { stream: 'stdout', text: 'rest', bytes: { line: 18, end: 101 } },
      { stream: 'stdout', text: 'last', bytes: { line: 101, end: 105 } },
    ]);
  });

  it('yields the same lines for every division into chunks', async () => {
    const text = fc.array(fc.constantFrom('a', 'é', '日', '😀', ' ', '\n', '\r\n'), { maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(text, fc.array(fc.integer({ min: 0, max: 7 })), async (parts, cuts) => {
        const whole = parts.join('');
        const expected = whole.split('\n').map((line) => line.replace(/\r$/, ''));
        if (expected.at(-1) === '') expected.pop();
        assert.deepEqual(await textsOf(cutAt(Buffer.from(whole), cuts)), expected);
      }),
      { numRuns: 500 },
    );
  });

  it('separates the streams when their lines arrive in pieces', async () => {
    const chunks = [
      { stream: 'stdout', bytes: Buffer.from('out') },
      { stream: 'stderr', bytes: Buffer.from('err') },
      { stream: 'stdout', bytes: Buffer.from('put\n') },
    ] as const;
    assert.deepEqual(await collect(chunks), [
      { stream: 'stdout', text: 'output' },
      { stream: 'stderr', text: 'err' },
    ]);
  });

  it('keeps empty lines', async () => {
    assert.deepEqual(await textsOf([Buffer.from('\n\na\n\n')]), ['', '', 'a', '']);
  });

  it('replaces invalid UTF-8', async () => {
    assert.deepEqual(await textsOf([Buffer.from([0x61, 0xff, 0xc3, 0x0a, 0xed, 0xa0, 0x80])]), [
      'a\uFFFD\uFFFD',
      '\uFFFD\uFFFD\uFFFD',
    ]);
  });

  it('keeps a line of the maximum length whole', async () => {
    const longest = 'x'.repeat(MAX_LINE_BYTES);
    assert.deepEqual(await textsOf([Buffer.from(`${longest}\nnext\n`)]), [longest, 'next']);
    assert.deepEqual(await textsOf(cutAt(Buffer.from(`${longest}\nnext`), [1, 60_000])), [longest, 'next']);
  });

  it('splits a longer line into parts and continues with the next line', async () => {
    const longest = 'x'.repeat(MAX_LINE_BYTES);
    const whole = Buffer.from(`${longest}${longest}yz\nnext\n`);
    const stream = 'stdout';
    const expected = [
      { stream, text: longest, part: 'start' },
      { stream, text: longest, part: 'rest' },
      { stream, text: 'yz', part: 'end' },
      { stream, text: 'next' },
    ];
    for (const cuts of [[], [5, MAX_LINE_BYTES - 5, 1], [MAX_LINE_BYTES, MAX_LINE_BYTES, 1]]) {
      const chunks = cutAt(whole, cuts).map((bytes) => ({ stream, bytes }) as const);
      assert.deepEqual(await collect(chunks), expected);
    }
    const unfinished = whole.subarray(0, MAX_LINE_BYTES + 1);
    assert.deepEqual(await collect([{ stream, bytes: unfinished }]), [
      { stream, text: longest, part: 'start' },
      { stream, text: 'x', part: 'end' },
    ]);
  });

  it('knows CR LF as the end of a line that it has split before the LF', async () => {
    const longest = 'x'.repeat(MAX_LINE_BYTES - 1);
    assert.deepEqual(await textsOf([Buffer.from(`${longest}\r`), Buffer.from('\nnext')]), [longest, 'next']);
    const texts = await textsOf([Buffer.from(`${longest}\ry\r\n`)]);
    assert.deepEqual(texts, [longest, '\ry']);
  });

  it('hands on what is there of a line that is not finished in time, each byte once', async () => {
    const steps: (Buffer | null)[] = [
      Buffer.from('begin'),
      null,
      Buffer.from(' of é').subarray(0, -1),
      null,
      Buffer.from([0xa9, 0x0d]),
      null,
      Buffer.from('\nwhole\n10%'),
      null,
      Buffer.from('\r20%\r'),
      null,
      Buffer.from('\rnext'),
    ];
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
    async function* source() {
      for (const bytes of steps) {
        if (bytes === null) await vi.advanceTimersByTimeAsync(PARTIAL_MS);
        else yield { stream: 'stdout' as const, bytes };
      }
    }
    const lines: LogLine[] = [];
    for await (const line of splitLines(source(), PARTIAL_MS)) lines.push(line);
    const stream = 'stdout';
    assert.deepEqual(lines, [
      { stream, text: 'begin', part: 'start' },
      { stream, text: ' of ', part: 'rest' },
      { stream, text: 'é', part: 'rest' },
      { stream, text: '', part: 'end' },
      { stream, text: 'whole' },
      { stream, text: '10%', part: 'start' },
      { stream, text: '\r20%', part: 'rest' },
      { stream, text: '\r\rnext', part: 'end' },
    ]);
  });

  it('ends when its reader leaves while the rest of a line is awaited, also if that then fails', async () => {
    const reader = new EventEmitter();
    const ended = once(reader, 'ended');
    async function* source() {
      try {
        yield { stream: 'stdout' as const, bytes: Buffer.from('x') };
        await once(reader, 'left');
        throw new Error('the source is broken');
      } finally {
        reader.emit('ended');
      }
    }
    const lines = splitLines(source(), 1);
    assert.deepEqual(await lines.next(), {
      done: false,
      value: { stream: 'stdout', text: 'x', part: 'start' },
    });
    await lines.return();
    reader.emit('left');
    await ended;
  });

  it('splits between characters and loses none', async () => {
    for (const character of ['é', '日', '😀']) {
      for (const padding of ['', 'x', 'xx', 'xxx']) {
        const whole = padding + character.repeat(MAX_LINE_BYTES);
        const texts = await textsOf([Buffer.from(whole)]);
        assert.equal(texts.join(''), whole);
        for (const text of texts) assert.ok(Buffer.byteLength(text) <= MAX_LINE_BYTES);
      }
    }
  });

  it('buffers at most one part of an endless line', async () => {
    const chunk = Buffer.alloc(1024 * 1024, 'y');
    const before = process.memoryUsage().arrayBuffers;
    let length = 0;
    async function* source() {
      for (let n = 0; n < 200; n++) yield { stream: 'stdout' as const, bytes: chunk };
    }
    for await (const { text } of splitLines(source())) {
      assert.ok(text.length <= MAX_LINE_BYTES);
      length += text.length;
    }
    assert.equal(length, 200 * chunk.length);
    assert.ok(process.memoryUsage().arrayBuffers - before < 4 * 1024 * 1024);
  });
});

async function textsOf(chunks: readonly Buffer[]): Promise<string[]> {
  return (await collect(chunks.map((bytes) => ({ stream: 'stdout', bytes })))).map(({ text }) => text);
}

async function collect(chunks: readonly { stream: LogLine['stream']; bytes: Buffer }[]): Promise<LogLine[]> {
  async function* source() {
    yield* chunks;
  }
  const lines: LogLine[] = [];
  for await (const line of splitLines(source())) lines.push(line);
  return lines;
}

function cutAt(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const parts: Buffer[] = [];
  let from = 0;
  for (const length of cuts) {
    parts.push(bytes.subarray(from, from + length));
    from = Math.min(bytes.length, from + length);
  }
  return [...parts, bytes.subarray(from)];
}

const RUNNING = new Promise<never>(() => undefined);

describe('readChunks', () => {
  it('gives the chunks of several streams as they arrive', async () => {
    const [one, two] = [new PassThrough(), new PassThrough()];
    const chunks = readChunks([streamed('one', one), streamed('two', two)], RUNNING);
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
    const chunks = readChunks([streamed('one', endless)], RUNNING);
    await chunks.next();
    await sleep(50);
    assert.ok(produced <= 4096, `${produced} bytes were produced for one read`);
    await chunks.return();
    endless.destroy();
  });

  it('ends when a stream stays open and silent after the end of the program', async () => {
    const held = new PassThrough();
    const chunks = readChunks([streamed('one', held)], Promise.resolve(), 30);
    held.write('last words');
    assert.deepEqual(await nextText(chunks), ['one', 'last words']);
    assert.equal((await chunks.next()).done, true);
    assert.equal(held.destroyed, true);
  });

  it('continues after the end of the program while output arrives', async () => {
    const busy = new PassThrough();
    const chunks = readChunks([streamed('one', busy)], Promise.reject(new Error('unknown end')), 500);
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
    const chunks = readChunks([streamed('one', broken)], RUNNING);
    const next = chunks.next();
    broken.destroy(new Error('connection reset'));
    assert.equal((await next).done, true);
  });

  it('discards the rest when its consumer stops, and releases the streams at the end', async () => {
    const stream = new PassThrough({ highWaterMark: 16 });
    const end = new EventEmitter();
    const ended = once(end, 'end');
    const chunks = readChunks([streamed('one', stream)], ended);
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
    const chunks = readChunks([streamed('one', stream)], RUNNING);
    for (let i = 0; i < 50; i++) {
      stream.write('x');
      await chunks.next();
    }
    assert.equal(stream.listenerCount('readable'), 1);
    await chunks.return();
    assert.equal(stream.listenerCount('readable'), 0);
  });
});

function streamed(stream: string, readable: Readable) {
  return { stream, readable };
}

async function nextText(chunks: AsyncIterator<{ stream: string; bytes: Buffer }>): Promise<unknown> {
  const { value } = await chunks.next();
  return value === undefined ? undefined : [value.stream, value.bytes.toString()];
}
