import assert from 'node:assert/strict';
import { test } from 'vitest';
import { SYSTEM_CLOCK } from './clock.js';

test('sleeps until the time has passed or the signal is aborted', async () => {
  await SYSTEM_CLOCK.sleep(1);
  const abort = new AbortController();
  const asleep = SYSTEM_CLOCK.sleep(3_600_000, abort.signal);
  abort.abort();
  await asleep;
  await SYSTEM_CLOCK.sleep(3_600_000, abort.signal);
  assert.ok(SYSTEM_CLOCK.nowMs() <= SYSTEM_CLOCK.nowMs());
});
