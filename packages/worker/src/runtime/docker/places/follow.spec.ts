import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { follow, type Found } from './follow.js';

/** An image: targets of links, `file`, or `folder`. Nothing else is there. */
const IMAGE: Readonly<Record<string, string>> = {
  '/a': 'folder',
  '/a/b': 'folder',
  '/a/b/up': '../../a/./c//d',
  '/a/c': '/e',
  '/e': 'folder',
  '/e/d': 'folder',
  '/f': 'file',
  '/loop': 'pool',
  '/pool': '/loop',
  '/root': '../../..',
  '/out': '../../../a/b',
  '/away': '/nowhere/x',
};

async function lookup(path: string): Promise<Found> {
  const what = IMAGE[path];
  if (what === undefined) return { kind: 'missing' };
  return what === 'file' || what === 'folder' ? { kind: what } : { kind: 'link', target: what };
}

describe('the place of a path in an image', () => {
  for (const [path, place, kind, link] of [
    ['/', '/', 'folder', null],
    ['/a/b', '/a/b', 'folder', null],
    ['/a/new/x', '/a/new/x', 'missing', null],
    ['/f', '/f', 'file', null],
    ['/f/x', '/f', 'blocked', null],
    ['/a/b/up', '/e/d', 'folder', '/a/b/up'],
    ['/a/b/up/x', '/e/d/x', 'missing', '/a/b/up'],
    ['/a/c/..', '/', 'folder', '/a/c'],
    ['/root', '/', 'folder', '/root'],
    ['/root/f', '/f', 'file', '/root'],
    ['/out/up', '/e/d', 'folder', '/out'],
    ['/away/y', '/nowhere/x/y', 'missing', '/away'],
  ] as const) {
    it(`is ${place} (${kind}) for ${path}`, async () => {
      assert.deepEqual(await follow(path, lookup), { place, kind, link });
    });
  }

  it('is not searched for ever', async () => {
    await assert.rejects(follow('/loop/x', lookup), /too many links: \/loop\/x/);
  });
});
