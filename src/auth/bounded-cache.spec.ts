import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BoundedCache } from './bounded-cache.js';

test('a cache keeps no more than its bound and forgets the oldest first', () => {
  const cache = new BoundedCache<number>(3);
  for (let n = 0; n < 1000; n += 1) {
    cache.set(`k${n}`, n);
    assert.ok(cache.size <= 3);
  }
  assert.deepEqual(
    ['k996', 'k997', 'k998', 'k999'].map((key) => cache.get(key)),
    [undefined, 997, 998, 999],
  );
});

test('an entry that is set again is the youngest, and takes no second place', () => {
  const cache = new BoundedCache<number>(2);
  cache.set('a', 1);
  cache.set('b', 2);
  cache.set('a', 3);
  assert.equal(cache.size, 2);
  cache.set('c', 4);
  assert.deepEqual([cache.get('a'), cache.get('b'), cache.get('c')], [3, undefined, 4]);
  cache.delete('a');
  assert.deepEqual([cache.get('a'), cache.size], [undefined, 1]);
});
