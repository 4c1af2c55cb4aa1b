import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { Capacity, CapacityQueue, type Allocation } from './capacity.js';
import { NO_CONSTRAINTS, type Constraints } from '../service-api/constraints.js';
import { FakeClock } from '../testing/fake-clock.js';

const MACHINE = {
  cpuCores: 4,
  ramMb: 1000,
  gpus: [
    { id: 0, vramMb: 800, tags: ['a100'] },
    { id: 3, vramMb: 400, tags: ['l4'] },
    { id: 4, vramMb: 800, tags: ['a100'] },
  ],
};

const want = (more: Partial<Constraints> = {}): Constraints => ({ ...NO_CONSTRAINTS, ...more });

const share = fc.record({
  vramMb: fc.oneof(fc.constant(0), fc.nat(900)),
  gpuIds: fc.constantFrom([], [0], [3], [9]),
});
const alone = fc.record({
  vramMb: fc.constantFrom(0, 400, 500),
  gpus: fc.integer({ min: 1, max: 4 }),
  gpuSelector: fc.constantFrom([], ['a100'], ['l4', 'a100']),
});
const anyConstraints = fc
  .tuple(fc.record({ cpuMillis: fc.nat(5000), ramMb: fc.nat(1200) }), fc.oneof(share, alone))
  .map(([size, gpus]) => want({ ...size, ...gpus }));

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
            taken.length <= maxRuns &&
              sum(({ cpuMillis }) => cpuMillis) <= 4000 &&
              sum(({ ramMb }) => ramMb) <= 1000,
          );
          for (const { id, vramMb } of MACHINE.gpus) {
            const users = taken.filter(({ gpuIds }) => gpuIds.includes(id));
            assert.ok(users.reduce((total, one) => total + one.vramMb, 0) <= vramMb);
            assert.ok(users.length <= 1 || users.every(({ isExclusive }) => !isExclusive), 'alone is alone');
          }
          const ended = taken[release];
          if (ended !== undefined) {
            taken.splice(release, 1);
            capacity.release(ended);
          }
        }
        for (const allocation of taken) capacity.release(allocation);
        assert.equal(capacity.running, 0);
        assert.ok(
          capacity.tryAllocate(want({ cpuMillis: 4000, ramMb: 1000, vramMb: 400, gpus: 3 })) !== null,
        );
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

test('counts parts of a core exactly', () => {
  const capacity = new Capacity(MACHINE, 100);
  for (let n = 0; n < 13; n++) assert.ok(capacity.tryAllocate(want({ cpuMillis: 300 })) !== null);
  assert.equal(capacity.tryAllocate(want({ cpuMillis: 101 })), null);
  assert.equal(capacity.hasFree(), true);
  assert.ok(capacity.tryAllocate(want({ cpuMillis: 100 })) !== null);
  assert.equal(capacity.hasFree(), false);
});

test('allocates the GPU with the least sufficient VRAM unless the run names a GPU', () => {
  const capacity = new Capacity(MACHINE, 100);
  const idsOf = (wanted: Partial<Constraints>) => capacity.tryAllocate(want(wanted))?.gpuIds;
  assert.deepEqual(idsOf({ vramMb: 300, cpuMillis: 1 }), [3]);
  assert.deepEqual(idsOf({ vramMb: 300, cpuMillis: 1 }), [0]);
  assert.deepEqual(idsOf({ gpuIds: [3], cpuMillis: 1 }), [3]);
  assert.deepEqual(idsOf({ vramMb: 10, gpuSelector: ['a100'], cpuMillis: 1 }), [0]);
  assert.deepEqual(idsOf({ cpuMillis: 1 }), []);
});

/** What an idle machine gives a run. */
const gpusOf = (wanted: Partial<Constraints>) => new Capacity(MACHINE, 1).tryAllocate(want(wanted))?.gpuIds;

test('allocates the smallest whole GPUs that suffice, those of the claim where it names them', () => {
  assert.deepEqual(gpusOf({ gpus: 2 }), [3, 0]);
  assert.deepEqual(gpusOf({ gpus: 2, vramMb: 500 }), [0, 4]);
  assert.deepEqual(gpusOf({ gpus: 1, gpuSelector: ['a100'] }), [0]);
  assert.deepEqual(gpusOf({ gpus: 1, gpuIds: [4] }), [4]);
  assert.equal(gpusOf({ gpus: 2, gpuIds: [4, 9] }), undefined);
});

test('gives a GPU that a run uses to no run that wants it alone, nor the reverse', () => {
  const capacity = new Capacity(MACHINE, 100);
  const allocate = (wanted: Partial<Constraints>) => capacity.tryAllocate(want({ cpuMillis: 1, ...wanted }));
  const shared = allocate({ vramMb: 100, gpuIds: [0] });
  assert.ok(shared);
  assert.equal(allocate({ gpus: 1, gpuIds: [0] }), null);
  assert.equal(allocate({ gpus: 3 }), null);
  const both = allocate({ gpus: 2 });
  assert.deepEqual(both?.gpuIds, [3, 4]);
  assert.equal(allocate({ vramMb: 1, gpuIds: [4] }), null);
  assert.equal(allocate({ gpuIds: [3] }), null);
  assert.deepEqual(allocate({ vramMb: 700 })?.gpuIds, [0]);
  capacity.release(both);
  assert.deepEqual(allocate({ vramMb: 1, gpuIds: [4] })?.gpuIds, [4]);
});

test('names the missing resource and the amount', () => {
  const capacity = new Capacity(MACHINE, 1);
  const texts: [Partial<Constraints>, RegExp][] = [
    [{ cpuMillis: 6000 }, /6 of CPUs.*has 4: 2 too few/],
    [{ cpuMillis: 4100 }, /4\.1 of CPUs.*has 4: 0\.1 too few/],
    [{ ramMb: 1500 }, /1500 MB of RAM.*has 1000 MB: 500 MB too few/],
    [{ vramMb: 900 }, /900 MB of VRAM of one GPU, .*has 800 MB: 100 MB too few/],
    [
      { vramMb: 500, gpuSelector: ['l4'] },
      /500 MB of VRAM of one GPU with the tags l4.*has 400 MB: 100 MB too few/,
    ],
    [{ vramMb: 500, gpuIds: [3] }, /VRAM of GPU 3.*has 400 MB: 100 MB too few/],
    [{ gpuIds: [1] }, /GPU 1, and this worker has no such GPU/],
    [{ gpus: 2, gpuIds: [0, 7] }, /GPU 7, and this worker has no such GPU/],
    [{ gpus: 8 }, /8 of whole GPUs, .*has 3: 5 too few/],
    [
      { gpus: 3, vramMb: 500, gpuSelector: ['a100'] },
      /3 of whole GPUs of 500 MB or more with the tags a100.*has 2: 1 too few/,
    ],
  ];
  for (const [wanted, text] of texts) assert.match(capacity.unmetRequirement(want(wanted)) ?? '', text);
});

test('grants requests in order and reports when there is room again', async () => {
  let wakeUps = 0;
  const queue = new CapacityQueue(new Capacity(MACHINE, 10), () => (wakeUps += 1));
  const started: string[] = [];
  const request = (name: string, cpu: number) => {
    const requested = queue.request(want({ cpuMillis: cpu * 1000 }));
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
  queue.request(want({ cpuMillis: 3000 }));
  const large = queue.request(want({ cpuMillis: 4000 }));
  const small = queue.request(want({ cpuMillis: 1000 }));
  large.release();
  assert.equal((await small.granted).cpuMillis, 1000);
});

test('counts what a run occupies already, also beyond what there is, until it is released', () => {
  const queue = new CapacityQueue(new Capacity(MACHINE, 10), () => undefined);
  const held = queue.take(want({ cpuMillis: 6000, gpus: 1, gpuIds: [3] }));
  assert.equal(queue.hasCapacity(), false);
  held.release();
  held.release();
  assert.equal(queue.hasCapacity(), true);
  queue.take(want({ gpus: 1, gpuIds: [3] }));
  assert.equal(queue.capacity.tryAllocate(want({ gpus: 1, gpuSelector: ['l4'] })), null);
});
