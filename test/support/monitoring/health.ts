import assert from 'node:assert/strict';
import { isPassing } from '../../../src/health/health-checks.js';
import type { TestAnswer } from '../app/test-app.js';

const PARTS = ['database', 'jobs', 'journal', 'reaper'];

/**
 * Checks an answer of GET /health: every part is listed, the given ones with the given word, the others with a word
 * that passes; and the status, of the response and of the service, follows from them.
 */
export function assertHealth(answer: TestAnswer, unwell: Readonly<Record<string, string>> = {}): void {
  const { status, ...parts } = Object(answer.body);
  assert.deepEqual(Object.keys(parts).toSorted(), PARTS);
  for (const [name, word] of Object.entries(parts)) {
    if (name in unwell) assert.equal(word, unwell[name], name);
    else assert.ok(isPassing(String(word)), `${name} is ${String(word)}`);
  }
  const isOk = Object.keys(unwell).length === 0;
  assert.deepEqual([answer.status, status], isOk ? [200, 'ok'] : [503, 'unavailable']);
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json\b/);
  if (!isOk) assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
}
