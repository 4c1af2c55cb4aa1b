import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeEach, describe, test, vi } from 'vitest';
import { SchedulerRegistry } from '@nestjs/schedule';
import { Registry } from 'prom-client';
import { DatabaseUnreachable } from '../../database/failover/unavailable.js';
import { createLog } from '../logging/logger.js';
import { JobMetrics, JobScheduler, type Job } from './job-scheduler.js';
import { ManualClock } from '../testing/manual-clock.js';

const JOB: Omit<Job, 'work'> = {
  name: 'sweep',
  description: 'removes dust',
  everyMs: 100,
  jitterMs: 0,
  firstDelayMs: 30,
  level: 'info',
};

/** Lets promises that are ready continue. */
async function settle(): Promise<void> {
  for (let i = 0; i < 10; i += 1) await Promise.resolve();
}

describe('a scheduled job', () => {
  let clock: ManualClock;
  let timers: SchedulerRegistry;
  let metrics: Registry;
  let scheduler: JobScheduler;
  let lines: Record<string, unknown>[];
  /** When each run began, counted from the start of the test. */
  let runs: number[];
  let startedAt: number;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    clock = new ManualClock();
    timers = new SchedulerRegistry();
    metrics = new Registry();
    lines = [];
    runs = [];
    startedAt = clock.now();
    const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
    const log = createLog({ logLevel: 'debug' }, { destination, pretty: false });
    scheduler = new JobScheduler(timers, clock, new JobMetrics(metrics), log);
  });

  /** Lets time pass, millisecond by millisecond, and what follows from it happen. */
  async function advance(ms: number): Promise<void> {
    await settle();
    for (let i = 0; i < ms; i += 1) {
      clock.advance(1);
      vi.advanceTimersByTime(1);
      await settle();
    }
  }

  const add = (options: Partial<Job> = {}, work: (stop: AbortSignal) => unknown = () => 0): void =>
    scheduler.add({
      ...JOB,
      ...options,
      work: async (stop) => {
        runs.push(clock.now() - startedAt);
        return Number((await work(stop)) ?? 0);
      },
    });
  const logged = (): unknown[] =>
    lines.map(({ level, msg, job, items }) => [level, msg, job, ...(items === undefined ? [] : [items])]);

  test('runs after its first delay and then at its interval, by a timer that has its name', async () => {
    add();
    assert.deepEqual(timers.getTimeouts(), ['sweep']);
    await advance(330);
    assert.deepEqual(runs, [30, 130, 230, 330]);
    assert.deepEqual(timers.getTimeouts(), ['sweep']);
  });

  test('never overlaps itself: a long run delays the next one', async () => {
    let finish: (() => void) | undefined;
    add({}, () => new Promise<void>((resolve) => (finish = resolve)));
    await advance(250);
    assert.deepEqual(runs, [30]);
    finish?.();
    await advance(1);
    assert.deepEqual(runs, [30, 251]);
  });

  test('starts a regular run early and a requested one late, by a random part of its jitter', async () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.5);
    add({ jitterMs: 20 });
    await advance(130);
    assert.deepEqual(runs, [30, 120]);
    scheduler.runWithin('sweep', 5);
    await advance(40);
    assert.deepEqual(runs, [30, 120, 145]);
  });

  test('runs earlier when that is requested, and not later', async () => {
    add();
    await advance(50);
    scheduler.runWithin('sweep', 10);
    scheduler.runWithin('sweep', 60);
    await advance(100);
    assert.deepEqual(runs, [30, 60]);
    scheduler.runWithin('sweep', -5);
    await advance(1);
    assert.deepEqual(runs, [30, 60, 151]);
  });

  test('runs again when that is requested in the middle of a run', async () => {
    add({}, () => runs.length < 3 && scheduler.runWithin('sweep', 0));
    await advance(60);
    assert.deepEqual(runs, [30, 31, 32]);
  });

  test('runs sooner than at its interval after a run that processed something', async () => {
    const items = [3, 0, 0];
    add({ againMs: 40 }, () => items.shift());
    await advance(300);
    assert.deepEqual(runs, [30, 70, 170, 270]);
  });

  test('may not share its name with another one', () => {
    add();
    assert.throws(() => add(), /sweep/);
  });

  test('ends when its timer is deleted from the registry', async () => {
    add();
    await advance(50);
    timers.deleteTimeout('sweep');
    scheduler.runWithin('sweep', 1);
    await advance(200);
    assert.deepEqual(runs, [30]);
  });

  test('is drained at the end: a run in progress finishes its batch, and none follows', async () => {
    let stop: AbortSignal | undefined;
    let finish: (() => void) | undefined;
    add({}, (signal) => {
      stop = signal;
      return new Promise<void>((resolve) => (finish = resolve));
    });
    await advance(30);
    assert.equal(stop?.aborted, false);
    let ended = 0;
    const ends = [scheduler.stop(), scheduler.stop()].map((end) => end.then(() => (ended += 1)));
    await advance(1);
    assert.deepEqual([stop.aborted, ended], [true, 0]);
    scheduler.runWithin('sweep', 0);
    finish?.();
    await Promise.all(ends);
    await advance(200);
    assert.deepEqual(runs, [30]);
    assert.deepEqual(timers.getTimeouts(), []);
    add({ name: 'late' });
    assert.deepEqual(timers.getTimeouts(), []);
  });

  test('logs what it does, under its name, when it processed something', async () => {
    const items = [0, 3];
    add({}, () => items.shift());
    await advance(30);
    assert.deepEqual(lines, []);
    await advance(100);
    assert.deepEqual(logged(), [['info', 'scheduled job finished: removes dust', 'sweep', 3]]);
  });

  test('is tried again after a failure: by its pauses, which double, or else at its interval', async () => {
    const failUntil = (success: number) => () => {
      if (runs.length < success) throw new Error('no');
    };
    add({ retry: { firstMs: 5, longestMs: 12 } }, failUntil(5));
    await advance(170);
    assert.deepEqual(runs, [30, 35, 45, 57, 69, 169]);
    timers.deleteTimeout('sweep');
    startedAt = clock.now();
    runs = [];
    add({ name: 'plain' }, failUntil(2));
    await advance(230);
    assert.deepEqual(runs, [30, 130, 230]);
  });

  test('logs an error at every failure, but an outage of the database once, and its end', async () => {
    const failures = [
      new Error('no'),
      new Error('no'),
      undefined,
      new DatabaseUnreachable('x'),
      new DatabaseUnreachable('x'),
    ];
    add({}, () => {
      const failure = failures.shift();
      if (failure) throw failure;
      return 0;
    });
    await advance(530);
    const failed = 'scheduled job failed, it will be repeated: removes dust';
    const succeeds = 'scheduled job succeeds again: removes dust';
    assert.deepEqual(logged(), [
      ['error', failed, 'sweep'],
      ['error', failed, 'sweep'],
      ['info', succeeds, 'sweep'],
      ['warning', failed, 'sweep'],
      ['info', succeeds, 'sweep'],
    ]);
  });

  test('has its runs, failures, items and last success in the metrics, under its name', async () => {
    const results = [4, new Error('no')];
    add({}, () => {
      const result = results.shift();
      if (result instanceof Error) throw result;
      return result;
    });
    const before = await metrics.metrics();
    assert.match(before, /^longshore_job_failures_total\{name="sweep"\} 0$/m);
    assert.match(before, /^longshore_job_duration_seconds_count\{name="sweep"\} 0$/m);
    await advance(130);
    const after = await metrics.metrics();
    assert.match(after, /^longshore_job_duration_seconds_count\{name="sweep"\} 2$/m);
    assert.match(after, /^longshore_job_failures_total\{name="sweep"\} 1$/m);
    assert.match(after, /^longshore_job_items_total\{name="sweep"\} 4$/m);
    const [, at] = /^longshore_job_last_success_timestamp_seconds\{name="sweep"\} (.*)$/m.exec(after) ?? [];
    assert.ok(Math.abs(Number(at) - Date.now() / 1000) < 60);
  });
});
