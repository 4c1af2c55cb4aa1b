import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'vitest';
import { KNOWN_WEAKNESSES, weaknessesOf } from './known-weaknesses.js';

const NEWEST = ['CVE-2025-31133', 'CVE-2025-52565', 'CVE-2025-52881'];

for (const [version, ids] of [
  ['1.0.0-rc2', ['CVE-2019-5736', 'CVE-2019-19921', 'CVE-2021-30465', 'CVE-2025-31133', 'CVE-2025-52881']],
  ['1.0.0-rc9', ['CVE-2019-19921', 'CVE-2021-30465', ...NEWEST]],
  ['1.0.0-rc93+ds1', ['CVE-2021-30465', 'CVE-2024-21626', ...NEWEST]],
  ['1.0.0~rc95', ['CVE-2023-27561', 'CVE-2024-21626', ...NEWEST]],
  ['1.0.0', ['CVE-2023-27561', 'CVE-2024-21626', ...NEWEST]],
  ['1.1.5+ds1', ['CVE-2024-21626', ...NEWEST]],
  ['v1.1.12', NEWEST],
  ['1.2.7', NEWEST],
  ['1.2.8', []],
  ['1.3.2', NEWEST],
  ['1.3.3-1', []],
  ['1.4.0-rc.2', NEWEST],
  ['1.4.0-rc.3', []],
  ['1.4.0', []],
  ['2.0.0', []],
] as const) {
  test(`runc ${version} has ${ids.length === 0 ? 'no known weakness' : ids.join(', ')}`, () => {
    assert.deepEqual(weaknessesOf(version), ids);
  });
}

test('a text without a version says nothing', () => {
  for (const text of ['', 'unknown', '1.1', 'commit 1.1.5']) assert.equal(weaknessesOf(text), null);
});

test('docs/security.md has the same table', () => {
  const page = readFileSync('docs/security.md', 'utf8');
  const rows = page.match(/^\| CVE-.*\|$/gm) ?? [];
  const shown = rows.map((row) => row.split('|').map((cell) => cell.trim()));
  assert.deepEqual(
    shown.map(([, id, since, closedBy, needs]) => ({ id, since, closedBy, needs })),
    KNOWN_WEAKNESSES.map(({ id, since = '', closedBy, needs }) => ({
      id,
      since,
      closedBy: closedBy.join(', '),
      needs,
    })),
  );
});
