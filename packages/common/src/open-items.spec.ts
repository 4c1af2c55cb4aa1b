import assert from 'node:assert/strict';
import { it } from 'vitest';
import fc from 'fast-check';
import { OpenItems } from './open-items.js';

it('holds the items that were added and not removed, whatever the order', () => {
  const step = fc.record({ do: fc.constantFrom('add', 'add', 'remove', 'remove', 'clear'), which: fc.nat() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const open = new OpenItems<number>();
      const removes: (() => boolean)[] = [];
      const expected = new Set<number>();
      for (const { do: action, which } of steps) {
        const item = which % Math.max(1, removes.length);
        if (action === 'clear') {
          assert.deepEqual(new Set(open.clear()), expected);
          expected.clear();
        } else if (action === 'add') {
          expected.add(removes.length);
          removes.push(open.add(removes.length));
        } else {
          // Also a second time, which changes nothing.
          assert.equal(removes[item]?.() ?? false, expected.delete(item));
        }
        assert.equal(open.size, expected.size);
        assert.deepEqual(new Set(open.list()), expected);
      }
    }),
  );
});
