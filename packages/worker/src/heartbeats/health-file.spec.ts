import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pino } from 'pino';
import { HealthFile } from './health-file.js';
import { DOWN } from '../testing/fake-service.js';
import { makeScene } from '../testing/scene.js';

const folder = mkdtempSync(join(tmpdir(), 'longshore-health-spec-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const silent = pino({ level: 'silent' });
const untilIn = (path: string): number => Date.parse(readFileSync(path, 'utf8'));

test('the health file says until when the service takes the worker for alive, and ends with it', async () => {
  const path = join(folder, 'scene');
  writeFileSync(path, '2999-01-01T00:00:00.000Z');
  const scene = makeScene({
    env: { SERVICE_WORKER_HEALTH_FILE: path, SERVICE_WORKER_TIMEOUT: '60', SERVICE_WORKER_TICK: '2' },
  });
  const isHealthy = (): boolean => existsSync(path) && untilIn(path) > scene.clock.epochMs();
  scene.service.onCall = () => DOWN;
  await scene.start();
  await scene.clock.pass(10_000);
  assert.equal(existsSync(path), false, 'not healthy by what an earlier life left');
  scene.service.onCall = () => undefined;
  await scene.clock.pass(60_000);
  await scene.clock.until('healthy', isHealthy);
  await scene.clock.pass(300_000);
  await scene.clock.until('still healthy', isHealthy);
  assert.ok(untilIn(path) - scene.clock.epochMs() <= 60_000);
  scene.service.onCall = () => DOWN;
  await scene.clock.pass(61_000);
  assert.equal(isHealthy(), false);
  await scene.end();
});

test('the health file is whole whenever it is read, and the last word is the latest', async () => {
  const path = join(folder, 'whole');
  const file = new HealthFile(path, silent);
  const writes = Array.from({ length: 200 }, (_, index) => file.note(index));
  for (let seen = 0; seen < 50; seen += 1) {
    if (existsSync(path)) assert.ok(untilIn(path) >= 0);
    await new Promise(setImmediate);
  }
  await Promise.all(writes);
  assert.equal(untilIn(path), 199);
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('whole')),
    ['whole'],
  );
});

test('a health file that cannot be written costs a line in the log, not the worker', async () => {
  const lines: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const file = new HealthFile(join(folder, 'nowhere', 'file'), logger);
  await file.note(1);
  await file.note(2);
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /cannot write the health file/);
});

test('nothing is written without a path', async () => {
  const before = readdirSync(folder);
  const file = new HealthFile(null, silent);
  await file.note(1);
  await file.forget();
  assert.deepEqual(readdirSync(folder), before);
});
