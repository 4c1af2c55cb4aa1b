import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { ClaimObstacles } from '../claims/claim-obstacles.js';
import { Inabilities } from '../claims/inabilities.js';
import { pino } from 'pino';
import { LogShipper } from './log-shipper.js';
import type { Refusal } from '../service-api/service-api.js';
import { FakeClock } from '../testing/fake-clock.js';
import { DOWN, FakeService, type Fault } from '../testing/fake-service.js';

describe('LogShipper', () => {
  it('sends a line within a second, and lines of that time in one chunk', async () => {
    const { shipper, service, clock, print } = makeShipper();
    await clock.pass(5_000);
    assert.equal(service.calls.length, 0);
    print('a');
    await clock.pass(300);
    print('b', 'c');
    await clock.pass(700);
    assert.deepEqual(texts(service), ['a', 'b', 'c']);
    print('d');
    await clock.pass(1_000);
    assert.equal(service.calls.length, 2);
    shipper.end();
    await shipper.done;
    assert.deepEqual(texts(service), ['a', 'b', 'c', 'd', '<end>']);
  });

  it('sends many lines at once, one chunk at a time', async () => {
    const { shipper, service, clock, print } = makeShipper();
    service.onCall = ({ address }) => (address?.number === 0 ? 'hang' : undefined);
    print(...Array.from({ length: 3_000 }, (_, n) => `${n}`));
    await clock.settle();
    assert.equal(service.calls.length, 1);
    service.onCall = () => undefined;
    print('last');
    shipper.end();
    await clock.pass(20_000);
    await shipper.done;
    assert.deepEqual(texts(service), [...Array.from({ length: 3_000 }, (_, n) => `${n}`), 'last', '<end>']);
  });

  it('stamps every line with the time at which it was read', async () => {
    const { shipper, service, clock, print } = makeShipper();
    const beganMs = clock.epochMs();
    print('a');
    await clock.pass(100);
    print('b');
    shipper.end();
    await shipper.done;
    assert.deepEqual(
      service.calls[0]?.chunk?.lines.map(({ atMs }) => atMs - beganMs),
      [0, 100],
    );
  });

  it('repeats a chunk unchanged until it is acknowledged, with growing pauses', async () => {
    const { shipper, service, clock, print } = makeShipper();
    const faults: Fault[] = [DOWN, 'hang', 'lose-answer', 'lose-answer'];
    service.onCall = () => faults.shift();
    print('a');
    await clock.pass(1_000);
    print('b');
    shipper.end();
    await clock.pass(120_000);
    await shipper.done;
    assert.deepEqual(texts(service), ['a', 'b', '<end>']);
    const first = service.calls.filter(({ address }) => address?.number === 0);
    assert.equal(first.length, 5);
    for (const { chunk } of first) assert.deepEqual(chunk, first[0]?.chunk);
    const pauses = first.slice(1).map(({ atMs }, n) => atMs - (first[n]?.atMs ?? 0));
    assert.ok(pauses.every((ms) => ms > 0));
  });

  it('honours Retry-After', async () => {
    const { service, clock, print } = makeShipper();
    service.onCall = () => ({ kind: 'unreachable', reason: 'HTTP 429', retryAfterSeconds: 20 });
    print('a');
    await clock.pass(10_000);
    assert.equal(service.calls.length, 1);
    await clock.pass(15_000);
    assert.equal(service.calls.length, 2);
  });

  for (const status of [401, 403, 404, 405, 409]) {
    it(`stops with one line in the worker's log when the answer is ${status}`, async () => {
      const { shipper, service, clock, print, logged } = makeShipper();
      service.onCall = () => refusal(status);
      print('a');
      await clock.pass(1_000);
      await shipper.done;
      print('b');
      shipper.end();
      await clock.pass(100_000);
      assert.equal(service.calls.length, 1);
      assert.equal(logged.length, 1, logged.join(''));
    });
  }

  it('stops when another writer has written the log', async () => {
    for (const nextChunk of [0, 7]) {
      const { shipper, service, clock, print, logged } = makeShipper();
      service.putLogChunk = async () => {
        service.calls.push({ what: 'putLogChunk', atMs: 0 });
        return { kind: 'ok', value: { nextChunk, nextLine: 1 } };
      };
      print('a');
      await clock.pass(1_000);
      print('b');
      await clock.pass(100_000);
      assert.equal(service.calls.length, 1);
      assert.equal(logged.length, 1);
      await shipper.done;
    }
  });

  it('splits a chunk that is too large, and drops a line that is too large by itself', async () => {
    const { shipper, service, clock, print } = makeShipper();
    service.onCall = ({ chunk }) =>
      (chunk?.lines.reduce((sum, { text }) => sum + text.length, 0) ?? 0) > 100 ? refusal(413) : undefined;
    print(...Array.from({ length: 40 }, (_, n) => String(n).padEnd(10)), 'x'.repeat(101), 'end');
    shipper.end();
    await clock.pass(1_000);
    await shipper.done;
    assert.deepEqual(
      texts(service).map((text) => text.trim()),
      [...Array.from({ length: 40 }, (_, n) => String(n)), '[1]', 'end', '<end>'],
    );
    assert.equal(service.calls.at(-1)?.chunk?.skippedBytes, 101);
  });

  it('drops refused lines and names the gap, and stops after repeated refusals', async () => {
    const { shipper, service, clock, print, logged } = makeShipper();
    service.onCall = ({ address, chunk }) =>
      address?.number === 1 && chunk?.isLast === false ? refusal(400) : undefined;
    for (const text of ['a', 'bad', 'c']) {
      print(text);
      await clock.pass(1_000);
    }
    shipper.end();
    await shipper.done;
    // The third chunk is refused as well: its number is the second one's.
    assert.deepEqual(texts(service), ['a', '[2]', '<end>']);
    assert.equal(service.calls.at(-1)?.chunk?.skippedBytes, 4);
    assert.equal(logged.length, 2);

    const other = makeShipper();
    other.service.onCall = () => refusal(400);
    for (let n = 0; n < 20; n++) {
      other.print('a');
      await other.clock.pass(1_000);
    }
    assert.equal(other.service.calls.length, 3);
    await other.shipper.done;
  });

  it('aborts its request and sends nothing after close', async () => {
    const { shipper, service, clock, print } = makeShipper();
    service.onCall = () => 'hang';
    print('a');
    await clock.pass(1_000);
    assert.equal(service.calls.length, 1);
    shipper.close();
    await shipper.done;
    print('b');
    await clock.pass(100_000);
    assert.equal(service.calls.length, 1);
  });
});

function makeShipper({ isShared = false } = {}) {
  const clock = new FakeClock();
  const service = new FakeService(clock);
  const logged: string[] = [];
  const logger = pino({}, { write: (line: string) => void logged.push(line) });
  const context = {
    api: service,
    clock,
    logger,
    random: () => 0.5,
    workerId: 'w',
    obstacles: new ClaimObstacles(() => undefined),
    inabilities: new Inabilities(() => undefined),
    terms: {
      workerTimeoutSeconds: 30,
      maxBodyBytes: null,
      tellsLostRuns: true,
      registered: new AbortController(),
    },
    key: { state: 'accepted' } as const,
  };
  const shipper = new LogShipper(context, { runId: 'r', attempt: 1, logger, isShared, from: null });
  const print = (...lines: string[]): void => {
    for (const text of lines)
      shipper.push({ atMs: clock.epochMs(), stream: 'stdout', text, isContinued: false });
  };
  return { clock, service, logged, shipper, print };
}

function texts(service: FakeService): string[] {
  return service.logs.texts('r');
}

function refusal(status: number): Refusal {
  return { kind: 'refused', status, detail: `No (${status}).` };
}
