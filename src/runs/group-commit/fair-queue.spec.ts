import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import { FairQueue, type FairItem } from './fair-queue.js';

interface Item extends FairItem {
  readonly n: number;
}

/** What an owner may take at once beyond its largest item, and what an item costs beyond its bytes. */
const TURN = 4096;
const ITEM = 1024;

function queueOf(items: readonly FairItem[]): FairQueue<Item> {
  const queue = new FairQueue<Item>();
  for (const [n, item] of items.entries()) queue.push({ ...item, n });
  return queue;
}

function drain(queue: FairQueue<Item>): Item[] {
  const taken: Item[] = [];
  for (let next = queue.peek(); next !== undefined; next = queue.peek()) {
    assert.equal(queue.take(), next);
    taken.push(next);
  }
  return taken;
}

function itemsOf<T extends FairItem>(all: readonly T[], owner: string): T[] {
  return all.filter((candidate) => candidate.owner === owner);
}

const times = (count: number, owner: string, bytes: number): FairItem[] =>
  Array.from({ length: count }, () => ({ owner, bytes }));

describe('the fair queue', () => {
  it('charges an owner for its last item, and not for what it took before while it was alone', () => {
    const queue = queueOf(times(12, 'a', 1_000_000));
    for (let i = 0; i < 10; i += 1) queue.take();
    for (const n of [12, 13]) queue.push({ owner: 'b', bytes: 1_000_000, n });
    assert.deepEqual(
      drain(queue).map(({ n }) => n),
      [12, 10, 13, 11],
    );
  });

  it('knows how much waits, in all and of an owner', () => {
    const queue = queueOf([...times(2, 'a', 10), ...times(1, 'b', 5)]);
    assert.deepEqual([queue.size, queue.bytes], [3, 25]);
    assert.deepEqual(queue.of('a'), { size: 2, bytes: 20 });
    assert.deepEqual(queue.of('nobody'), { size: 0, bytes: 0 });
    queue.take();
    assert.deepEqual(queue.of('a'), { size: 1, bytes: 10 });
    assert.equal(queue.clear().length, 2);
    assert.deepEqual([queue.size, queue.bytes, queue.peek()], [0, 0, undefined]);
    assert.deepEqual(queue.of('a'), { size: 0, bytes: 0 });
  });

  it('for any items: loses none, keeps the order of each owner, and lets none fall behind', () => {
    const item = fc.record({
      owner: fc.constantFrom('a', 'b', 'c', 'd'),
      bytes: fc.oneof(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 0, max: 50_000 })),
    });
    fc.assert(
      fc.property(fc.array(item, { maxLength: 80 }), (items) => {
        const taken = drain(queueOf(items));
        const owners: string[] = [...new Set(items.map(({ owner }) => owner))];
        for (const owner of owners) {
          assert.deepEqual(
            itemsOf(taken, owner).map(({ n }) => n),
            items.flatMap((candidate, n) => (candidate.owner === owner ? [n] : [])),
          );
        }
        // While two owners have items, what they were served differs by less than a turn and the largest items.
        const largest = Math.max(0, ...items.map(({ bytes }) => bytes)) + ITEM;
        const served = new Map<string, number>(owners.map((owner) => [owner, 0]));
        const left = new Map(owners.map((owner) => [owner, itemsOf(items, owner).length]));
        for (const { owner, bytes } of taken) {
          served.set(owner, (served.get(owner) ?? 0) + bytes + ITEM);
          left.set(owner, (left.get(owner) ?? 0) - 1);
          const waiting = owners.filter((name) => (left.get(name) ?? 0) > 0);
          if (waiting.length < owners.length) break;
          const costs = waiting.map((name) => served.get(name) ?? 0);
          assert.ok(Math.max(...costs) - Math.min(...costs) <= 2 * (largest + TURN));
        }
      }),
    );
  });
});
