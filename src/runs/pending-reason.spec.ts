import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'vitest';
import { PENDING_REASONS } from './pending-reason.js';

test('the reasons for which runs are pending are those of the page about them, in this order', () => {
  const page = readFileSync('docs/autoscaling.md', 'utf8');
  const [, rest = ''] = page.split('## Why runs are pending\n');
  const [section = ''] = rest.split('\n## ');
  const rows = [...section.matchAll(/^\| `(\w+)` +\| (.*?) +\|$/gm)].map(([, reason, meaning]) => [
    reason,
    meaning,
  ]);
  assert.deepEqual(rows, Object.entries(PENDING_REASONS));
});
