import assert from 'node:assert/strict';
import { test } from 'vitest';
import { Stopped, StopSignal } from './stop-signal.js';

const isStopped = (kind: string) => (error: unknown) =>
  error instanceof Stopped && error.reason.kind === kind;

test('passes on the result of a promise before a stop', async () => {
  const stop = new StopSignal();
  stop.check();
  assert.equal(await stop.abortable(Promise.resolve(5)), 5);
  await assert.rejects(stop.abortable(Promise.reject(new Error('own fault'))), /own fault/);
});

test('leaves a pending promise, with the first reason', async () => {
  const stop = new StopSignal();
  const waiting = stop.abortable(new Promise(() => undefined));
  stop.stop({ kind: 'shutting-down' });
  stop.stop({ kind: 'key-refused' });
  await assert.rejects(waiting, isStopped('shutting-down'));
  await assert.rejects(stop.abortable(new Promise(() => undefined)), isStopped('shutting-down'));
  assert.throws(() => stop.check(), isStopped('shutting-down'));
});

test('throws Stopped when the interrupted operation fails', async () => {
  const stop = new StopSignal();
  const interrupted = new Promise((_, reject) => {
    stop.signal.addEventListener('abort', () => reject(new Error('aborted')));
  });
  const waiting = stop.abortable(interrupted);
  stop.stop({ kind: 'key-refused' });
  await assert.rejects(waiting, isStopped('key-refused'));
});
