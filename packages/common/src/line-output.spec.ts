import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, it } from 'vitest';
import { setImmediate as turn } from 'node:timers/promises';
import { LineOutput } from './line-output.js';

const { O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
/** A pipe of Linux holds 64 KiB. */
const LINE_BYTES = 1024;
const PIPE_LINES = 64;

function line(n: number): string {
  return `${String(n).padEnd(LINE_BYTES - 1, '.')}\n`;
}

/** A keep-alive: the timers of the output do not keep the process alive. */
async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!condition()) {
    assert.ok(performance.now() < deadline, 'waited in vain');
    await turn();
  }
}

describe('lines for a pipe', () => {
  const folder = mkdtempSync(join(tmpdir(), 'longshore-lines-'));
  const open: number[] = [];
  let path: string;
  let reader: number;
  let output: LineOutput;
  let received: string;
  let count = 0;

  const openPipe = (flags: number): number => {
    const fd = openSync(path, flags | O_NONBLOCK);
    open.push(fd);
    return fd;
  };
  const closePipe = (fd: number): void => {
    open.splice(open.indexOf(fd), 1);
    closeSync(fd);
  };
  /** Reads what there is. @returns the lines so far */
  const read = (): string[] => {
    const buffer = Buffer.alloc(PIPE_LINES * LINE_BYTES);
    try {
      for (let n = readSync(reader, buffer); n > 0; n = readSync(reader, buffer)) {
        received += buffer.toString('utf8', 0, n);
      }
    } catch (error) {
      assert.ok(error instanceof Error && 'code' in error && error.code === 'EAGAIN');
    }
    return received.split('\n').map((text) => text.replace(/\.+$/, ''));
  };

  beforeEach(() => {
    path = join(folder, String((count += 1)));
    execFileSync('mkfifo', [path]);
    received = '';
    reader = openPipe(O_RDONLY);
    output = new LineOutput(openPipe(O_WRONLY), 10 * LINE_BYTES);
    output.reportGaps((lines) => output.write(`gap of ${lines}\n`));
  });
  afterEach(() => {
    for (const fd of open.splice(0)) closeSync(fd);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('are in the pipe before the call returns', () => {
    output.write('one\n');
    output.write('two\n');
    assert.deepEqual(read(), ['one', 'two', '']);
  });

  it('wait up to the limit while the reader does not read, further ones are counted, and the gap is said at its place', async () => {
    const kept = PIPE_LINES + 10;
    for (let n = 0; n < kept + 7; n += 1) output.write(line(n));
    assert.equal(output.dropped, 7);
    assert.equal(output.waitingBytes, 10 * LINE_BYTES);
    await until(() => read().includes('gap of 7'));
    output.write('after\n');
    const expected = Array.from({ length: kept }, (_, n) => String(n));
    assert.deepEqual(read(), [...expected, 'gap of 7', 'after', '']);
    assert.equal(output.waitingBytes, 0);
    assert.equal(output.dropped, 7);
  });

  it('larger than the pipe arrive whole', async () => {
    const large = 'x'.repeat(3 * PIPE_LINES * LINE_BYTES);
    output.write(`${large}\n`);
    await until(() => read().length === 2);
    output.write('after\n');
    const [first, ...others] = read();
    assert.ok(first === large);
    assert.deepEqual(others, ['after', '']);
    assert.equal(output.dropped, 0);
  });

  it('wait while there is no reader, and go to the next one', async () => {
    output.write('first\n');
    read();
    closePipe(reader);
    for (let n = 0; n < 12; n += 1) output.write(line(n));
    assert.equal(output.dropped, 2);
    reader = openPipe(O_RDONLY);
    await until(() => read().includes('gap of 2'));
    assert.deepEqual(read().slice(0, 3), ['first', '0', '1']);
    output.write('last\n');
    assert.deepEqual(read().slice(-3), ['gap of 2', 'last', '']);
  });
});

describe('lines for a full device', () => {
  it('are counted, and nothing is thrown', () => {
    // Stays open: what waits is tried again as long as the process lives, and would go to whatever had the number next.
    const output = new LineOutput(openSync('/dev/full', 'w'), 100);
    for (let n = 0; n < 50; n += 1) output.write('ten bytes\n');
    assert.equal(output.waitingBytes, 100);
    assert.equal(output.dropped, 40);
  });
});
