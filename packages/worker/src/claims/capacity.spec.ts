import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { Capacity, CapacityQueue, type Allocation } from './capacity.js';
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

const anyConstraints = fc.record({
  cpu: fc.nat(5),
  ramMb: fc.nat(1200),
  vramMb: fc.oneof(fc.constant(0), fc.nat(900)),
  gpuId: fc.constantFrom(null, 0, 3, 9),
});

test('never allocates more than the machine has, and release frees everything', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ wanted: anyConstraints, release: fc.nat(9) })),
      fc.integer({ min: 1, max: 6 }),
      (steps, maxRuns) => {
        const capacity = new Capacity(MACHINE, maxRuns);
        const taken: Allocation[] = [];
        for (const { wanted, release } of steps) {
          const allocation = capacity.tryAllocate(wanted);
          if (allocation !== null) taken.push(allocation);
          assert.ok(
            allocation === null || capacity.unmetRequirement(wanted) === null,
            'a run that cannot fit is never started',
          );
          const sum = (pick: (one: Allocation) => number) =>
            taken.reduce((total, one) => total + pick(one), 0);
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
        for (const allocation of taken) capacity.release(allocation);
        assert.ok(capacity.tryAllocate(want({ cpu: 4, ramMb: 1000, vramMb: 800, gpuId: 0 })) !== null);
      },
    ),
  );
});

test('an idle machine starts every run whose requirements it meets', () => {
  fc.assert(
    fc.property(anyConstraints, (wanted) => {
      const capacity = new Capacity(MACHINE, 1);
      assert.equal(capacity.tryAllocate(wanted) !== null, capacity.unmetRequirement(wanted) === null);
    }),
  );
});

test('counts a run without requirements as one CPU', () => {
  const capacity = new Capacity(MACHINE, 100);
  for (let n = 0; n < 4; n++) assert.ok(capacity.tryAllocate(want()) !== null);
  assert.equal(capacity.hasFree(), false);
  assert.equal(capacity.tryAllocate(want()), null);
});

test('allocates the GPU with the least sufficient VRAM unless the run names a GPU', () => {
  const capacity = new Capacity(MACHINE, 100);
  assert.equal(capacity.tryAllocate(want({ vramMb: 300 }))?.gpuId, 3);
  assert.equal(capacity.tryAllocate(want({ vramMb: 300 }))?.gpuId, 0);
  assert.equal(capacity.tryAllocate(want({ gpuId: 3 }))?.gpuId, 3);
  assert.equal(capacity.tryAllocate(want())?.gpuId, null);
});

test('names the missing resource and the amount', () => {
  const capacity = new Capacity(MACHINE, 1);
  const texts: [Partial<Constraints>, RegExp][] = [
    [{ cpu: 6 }, /6 of CPUs.*has 4: 2 too few/],
    [{ ramMb: 1500 }, /1500 MB of RAM.*has 1000 MB: 500 MB too few/],
    [{ vramMb: 900 }, /900 MB of VRAM of one GPU.*has 800 MB: 100 MB too few/],
    [{ vramMb: 500, gpuId: 3 }, /VRAM of GPU 3.*has 400 MB: 100 MB too few/],
    [{ gpuId: 1 }, /GPU 1, and this worker has no such GPU/],
  ];
  for (const [wanted, text] of texts) assert.match(capacity.unmetRequirement(want(wanted)) ?? '', text);
});

test('grants requests in order and reports when there is room again', async () => {
  let wakeUps = 0;
  const queue = new CapacityQueue(new Capacity(MACHINE, 10), () => (wakeUps += 1));
  const started: string[] = [];
  const request = (name: string, cpu: number) => {
    const requested = queue.request(want({ cpu }));
    void requested.granted.then(() => started.push(name));
    return requested;
  };
  const first = request('first', 3);
  const large = request('large', 4);
  request('small', 1);
  await new FakeClock().settle();
  assert.deepEqual(started, ['first']);
  assert.equal(queue.hasCapacity(), false);
  first.release();
  first.release();
  await new FakeClock().settle();
  assert.deepEqual(started, ['first', 'large']);
  assert.equal(wakeUps, 0);
  large.release();
  await new FakeClock().settle();
  assert.deepEqual(started, ['first', 'large', 'small']);
  assert.equal(wakeUps, 1);
  assert.equal(queue.hasCapacity(), true);
});

test('grants the next request when the first one is withdrawn', async () => {
  const queue = new CapacityQueue(new Capacity(MACHINE, 10), () => undefined);
  queue.request(want({ cpu: 3 }));
  const large = queue.request(want({ cpu: 4 }));
  const small = queue.request(want({ cpu: 1 }));
  large.release();
  assert.equal((await small.granted).cpu, 1);
});
