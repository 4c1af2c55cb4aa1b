import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { HealthChecks, isPassing } from './health-checks.js';

describe('health checks', () => {
  test('a check that does not respond is silent, one that throws is failing; neither affects the others', async () => {
    const checks = new HealthChecks();
    checks.register('hanging', () => new Promise<string>(() => undefined));
    checks.register('broken', () => {
      throw new Error('broken');
    });
    checks.register('sound', () => 'ok');
    assert.deepEqual(await checks.run(30), { hanging: 'silent', broken: 'failing', sound: 'ok' });
  });

  test('only ok and waiting pass', () => {
    const words = ['ok', 'waiting', 'stuck', 'stalled', 'overloaded', 'silent', 'failing', 'unreachable', ''];
    assert.deepEqual(words.filter(isPassing), ['ok', 'waiting']);
  });

  test('refuses a name that is taken', () => {
    const checks = new HealthChecks();
    checks.register('journal', () => 'ok');
    assert.throws(() => checks.register('journal', () => 'ok'), RangeError);
    assert.throws(() => checks.register('status', () => 'ok'), RangeError);
  });
});
