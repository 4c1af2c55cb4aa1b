import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CapacityQueue } from './capacity-queue.js';
import { Capacity, type Share } from './capacity.js';
import type { Constraints } from '../service-api/service-api.js';
import { FakeClock } from '../testing/fake-clock.js';

const MACHINE = {
  cpuCores: 4,
  ramMb: 1000,
  gpus: [
    { id: 0, vramMb: 800, tags: [] },
    { id: 3, vramMb: 400, tags: [] },
  ],
};

const want = (more: Partial<Constraints> = {}): Constraints => ({
  ramMb: 0,
  vramMb: 0,
  cpu: 0,
  gpuId: null,
  ...more,
});

const anyWish = fc.record({
  cpu: fc.nat(5),
  ramMb: fc.nat(1200),
  vramMb: fc.oneof(fc.constant(0), fc.nat(900)),
  gpuId: fc.constantFrom(null, 0, 3, 9),
});

test('never gives away more than there is, and everything comes back', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ wish: anyWish, release: fc.nat(9) })),
      fc.integer({ min: 1, max: 6 }),
      (steps, maxRuns) => {
        const capacity = new Capacity(MACHINE, maxRuns);
        const taken: Share[] = [];
        for (const { wish, release } of steps) {
          const share = capacity.tryTake(wish);
          if (share !== null) taken.push(share);
          assert.ok(
            share === null || capacity.whyNever(wish) === null,
            'what can never run is never started',
          );
          const sum = (pick: (one: Share) => number) => taken.reduce((total, one) => total + pick(one), 0);
          assert.ok(
            taken.length <= maxRuns && sum(({ cpu }) => cpu) <= 4 && sum(({ ramMb }) => ramMb) <= 1000,
          );
          for (const { id, vramMb } of MACHINE.gpus) {
            assert.ok(sum((one) => (one.gpuId === id ? one.vramMb : 0)) <= vramMb);
          }
          const ended = taken[release];
          if (ended !== undefined) {
            taken.splice(release, 1);
            capacity.release(ended);
          }
        }
        for (const share of taken) capacity.release(share);
        assert.ok(capacity.tryTake(want({ cpu: 4, ramMb: 1000, vramMb: 800, gpuId: 0 })) !== null);
      },
    ),
  );
});

test('starts on an idle machine whatever can ever be started', () => {
  fc.assert(
    fc.property(anyWish, (wish) => {
      const capacity = new Capacity(MACHINE, 1);
      assert.equal(capacity.tryTake(wish) !== null, capacity.whyNever(wish) === null);
    }),
  );
});

test('counts a run without a wish as one CPU', () => {
  const capacity = new Capacity(MACHINE, 100);
  for (let n = 0; n < 4; n++) assert.ok(capacity.tryTake(want()) !== null);
  assert.equal(capacity.hasFree(), false);
  assert.equal(capacity.tryTake(want()), null);
});

test('puts a run on the GPU that fits tightest, and on the given one otherwise', () => {
  const capacity = new Capacity(MACHINE, 100);
  assert.equal(capacity.tryTake(want({ vramMb: 300 }))?.gpuId, 3);
  assert.equal(capacity.tryTake(want({ vramMb: 300 }))?.gpuId, 0);
  assert.equal(capacity.tryTake(want({ gpuId: 3 }))?.gpuId, 3);
  assert.equal(capacity.tryTake(want())?.gpuId, null);
});

test('says which resource is missing and by how much', () => {
  const capacity = new Capacity(MACHINE, 1);
  const texts: [Partial<Constraints>, RegExp][] = [
    [{ cpu: 6 }, /6 of CPUs.*has 4: 2 too few/],
    [{ ramMb: 1500 }, /1500 MB of RAM.*has 1000 MB: 500 MB too few/],
    [{ vramMb: 900 }, /900 MB of VRAM of one GPU.*has 800 MB: 100 MB too few/],
    [{ vramMb: 500, gpuId: 3 }, /VRAM of GPU 3.*has 400 MB: 100 MB too few/],
    [{ gpuId: 1 }, /GPU 1, and this worker has no such GPU/],
  ];
  for (const [wish, text] of texts) assert.match(capacity.whyNever(want(wish)) ?? '', text);
});

test('lets nobody overtake in the line, and says when there is room again', async () => {
  let nudges = 0;
  const line = new CapacityQueue(new Capacity(MACHINE, 10), () => (nudges += 1));
  const started: string[] = [];
  const enter = (name: string, cpu: number) => {
    const place = line.enter(want({ cpu }));
    void place.granted.then(() => started.push(name));
    return place;
  };
  const first = enter('first', 3);
  const large = enter('large', 4);
  enter('small', 1);
  await new FakeClock().settle();
  assert.deepEqual(started, ['first']);
  assert.equal(line.hasRoom(), false);
  first.leave();
  first.leave();
  await new FakeClock().settle();
  assert.deepEqual(started, ['first', 'large']);
  assert.equal(nudges, 0);
  large.leave();
  await new FakeClock().settle();
  assert.deepEqual(started, ['first', 'large', 'small']);
  assert.equal(nudges, 1);
  assert.equal(line.hasRoom(), true);
});

test('frees the line when the one in front gives up waiting', async () => {
  const line = new CapacityQueue(new Capacity(MACHINE, 10), () => undefined);
  line.enter(want({ cpu: 3 }));
  const large = line.enter(want({ cpu: 4 }));
  const small = line.enter(want({ cpu: 1 }));
  large.leave();
  assert.equal((await small.granted).cpu, 1);
});
