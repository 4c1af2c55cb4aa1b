import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, test } from 'vitest';
import { pino } from 'pino';
import { HealthFile } from './health-file.js';
import { DOWN } from '../testing/fake-service.js';
import { makeHarness } from '../testing/worker-harness.js';

const folder = mkdtempSync(join(tmpdir(), 'longshore-health-spec-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const silent = pino({ level: 'silent' });
const untilIn = (path: string): number => Date.parse(readFileSync(path, 'utf8'));

test('the health file holds the time until which the service counts the worker as active', async () => {
  const path = join(folder, 'health');
  writeFileSync(path, '2999-01-01T00:00:00.000Z');
  const harness = makeHarness({
    env: { SERVICE_WORKER_HEALTH_FILE: path, SERVICE_WORKER_TIMEOUT: '60', SERVICE_WORKER_TICK: '2' },
  });
  const isHealthy = (): boolean => existsSync(path) && untilIn(path) > harness.clock.epochMs();
  harness.service.onCall = () => DOWN;
  await harness.start();
  await harness.clock.pass(10_000);
  assert.equal(existsSync(path), false, 'not healthy because of the file of a previous process');
  harness.service.onCall = () => undefined;
  await harness.clock.pass(60_000);
  await harness.clock.until('healthy', isHealthy);
  await harness.clock.pass(300_000);
  await harness.clock.until('still healthy', isHealthy);
  assert.ok(untilIn(path) - harness.clock.epochMs() <= 60_000);
  harness.service.onCall = () => DOWN;
  await harness.clock.pass(61_000);
  assert.equal(isHealthy(), false);
});

test('the health file is complete whenever it is read, and ends with the latest time', async () => {
  const path = join(folder, 'whole');
  const file = new HealthFile(path, silent, () => []);
  const writes = Array.from({ length: 200 }, (_, index) => file.write(index));
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

test('a health file that cannot be written is logged once and stops nothing', async () => {
  const lines: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  const file = new HealthFile(join(folder, 'nowhere', 'file'), logger, () => []);
  await file.write(1);
  await file.write(2);
  assert.equal(lines.length, 1);
  assert.match(lines[0] ?? '', /cannot write the health file/);
});

test('the health file says why the worker does not claim, on lines after the time', async () => {
  const path = join(folder, 'why');
  let reasons = ['engine_paused: no answer'];
  const file = new HealthFile(path, silent, () => reasons);
  const time = '1970-01-01T00:00:01.000Z';
  await file.refresh();
  assert.ok(!existsSync(path), 'there is no time yet');
  await file.write(1000);
  assert.equal(readFileSync(path, 'utf8'), `${time}\nengine_paused: no answer`);
  reasons = ['disk_full: ', 'draining: the worker shuts down'];
  await file.refresh();
  assert.equal(readFileSync(path, 'utf8'), [time, ...reasons].join('\n'));
  reasons = [];
  await file.refresh();
  assert.equal(readFileSync(path, 'utf8'), time);
});

test('writes nothing without a path', async () => {
  const before = readdirSync(folder);
  const file = new HealthFile(null, silent, () => []);
  await file.write(1);
  await file.remove();
  assert.deepEqual(readdirSync(folder), before);
});
