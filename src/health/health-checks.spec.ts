import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HealthChecks, isWell } from './health-checks.js';

describe('health checks', () => {
  test('each part is told by its name, in the order of registration', async () => {
    const checks = new HealthChecks();
    checks.register('journal', () => 'stuck');
    checks.register('reaper', () => Promise.resolve('waiting'));
    assert.deepEqual(Object.entries(await checks.ask(1_000)), [
      ['journal', 'stuck'],
      ['reaper', 'waiting'],
    ]);
  });

  test('a part that does not answer is silent, one that throws is failing; neither keeps the others from being told', async () => {
    const checks = new HealthChecks();
    checks.register('deaf', () => new Promise<string>(() => undefined));
    checks.register('broken', () => {
      throw new Error('broken');
    });
    checks.register('sound', () => 'ok');
    const started = performance.now();
    assert.deepEqual(await checks.ask(30), { deaf: 'silent', broken: 'failing', sound: 'ok' });
    assert.ok(performance.now() - started < 1_000);
  });

  test('only ok and waiting are well', () => {
    const words = ['ok', 'waiting', 'stuck', 'stalled', 'overloaded', 'silent', 'failing', 'unreachable', ''];
    assert.deepEqual(words.filter(isWell), ['ok', 'waiting']);
  });

  test('a name is given once', () => {
    const checks = new HealthChecks();
    checks.register('journal', () => 'ok');
    assert.throws(() => checks.register('journal', () => 'ok'), RangeError);
    assert.throws(() => checks.register('status', () => 'ok'), RangeError);
  });
});
