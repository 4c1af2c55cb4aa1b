import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeEach, describe, test, vi } from 'vitest';
import { createLog } from '../common/logging/logger.js';
import { KeyUsage, USE_INTERVAL_MS } from './key-usage.js';
import { FakeKeys } from './testing/fake-keys.js';
import { ManualClock } from '../common/testing/manual-clock.js';

describe('the last use of a key', () => {
  let keys: FakeKeys;
  let clock: ManualClock;
  let usage: KeyUsage;
  let lines: Record<string, unknown>[];

  beforeEach(() => {
    keys = new FakeKeys();
    clock = new ManualClock();
    lines = [];
    const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
    const log = createLog({ logLevel: 'debug' }, { destination, pretty: false });
    usage = new KeyUsage(keys, clock, log);
  });

  const written = (): [string, number][][] => keys.uses.map((uses) => [...uses]);

  test('is written for several keys at once, with how long ago it was', async () => {
    usage.note('a');
    clock.advance(300);
    usage.note('b');
    clock.advance(50);
    await usage.flush();
    assert.deepEqual(written(), [
      [
        ['a', 350],
        ['b', 50],
      ],
    ]);
  });

  test('is written by itself, soon and not in the way of the request', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    usage.note('a');
    await new Promise(setImmediate);
    assert.deepEqual(written(), []);
    vi.advanceTimersByTime(1_000);
    assert.deepEqual(written(), [[['a', 0]]]);
  });

  test('is written by one statement at a time; what comes meanwhile follows', async () => {
    keys.hold();
    usage.note('a');
    const first = usage.flush();
    usage.note('b');
    void usage.flush();
    assert.equal(written().length, 1);
    keys.release();
    await first;
    await usage.flush();
    assert.deepEqual(written(), [[['a', 0]], [['b', 0]]]);
  });

  test('that cannot be written is logged, troubles nobody and is tried again a minute later', async () => {
    keys.failure = new Error('away');
    usage.note('a');
    await usage.flush();
    assert.deepEqual(
      lines.map(({ level, msg }) => [level, msg]),
      [['warning', 'could not write when API keys were last used']],
    );
    keys.failure = undefined;
    usage.note('a');
    await usage.flush();
    assert.equal(written().length, 1);
    clock.advance(USE_INTERVAL_MS);
    usage.note('a');
    await usage.flush();
    assert.equal(written().length, 2);
  });

  test('is not lost when the service stops', async () => {
    keys.hold();
    usage.note('a');
    void usage.flush();
    usage.note('b');
    const stopped = usage.beforeApplicationShutdown();
    await new Promise(setImmediate);
    keys.release();
    await stopped;
    assert.deepEqual(written(), [[['a', 0]], [['b', 0]]]);
  });

  test('does not keep the service from stopping when the database is silent', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    keys.hold();
    usage.note('a');
    const stopped = usage.beforeApplicationShutdown();
    vi.advanceTimersByTime(1_000);
    await stopped;
  });
});
