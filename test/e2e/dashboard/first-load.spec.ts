import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'vitest';
import { gzipSync } from 'node:zlib';
import { DASHBOARD_FOLDER as SITE } from '../../../src/dashboard/dashboard.controller.js';

const MOST_BYTES = 250 * 1024;

describe('the built dashboard', () => {
  test('needs less than 250 kB, gzipped, for its first page: all that the page names, and its largest page', async () => {
    const page = await readFile(join(SITE, 'index.html'), 'utf8');
    const named = [...page.matchAll(/(?:src|href)="\.\/([^"]+)"/g)].map(([, name = '']) => name);
    assert.ok(named.filter((name) => name.startsWith('assets/')).length >= 2, page);
    const assets = (await readdir(join(SITE, 'assets'))).map((name) => `assets/${name}`);
    const lazy = assets.filter((name) => /\.(?:js|css)$/.test(name) && !named.includes(name));
    const sizes = new Map<string, number>();
    for (const name of [...named, ...lazy]) {
      sizes.set(name, gzipSync(await readFile(join(SITE, name))).length);
    }
    const sum = (names: readonly string[]): number =>
      names.reduce((total, name) => total + (sizes.get(name) ?? 0), 0);
    const largest = lazy
      .toSorted((left, right) => (sizes.get(right) ?? 0) - (sizes.get(left) ?? 0))
      .slice(0, 4);
    const total = gzipSync(page).length + sum(named) + sum(largest);
    assert.ok(total < MOST_BYTES, `${total} bytes: ${JSON.stringify([...sizes])}`);
  });

  test('asks nobody else for anything', async () => {
    const page = await readFile(join(SITE, 'index.html'), 'utf8');
    assert.doesNotMatch(page, /(?:src|href)="(?!\.\/)/);
  });
});
