import assert from 'node:assert/strict';
import { pino } from 'pino';
import { test } from 'vitest';
import { MachineUnable } from '../runtime/runtime.js';
import { FakeClock } from '../testing/fake-clock.js';
import { GpuWatch } from './gpu-watch.js';
import { Inabilities } from './inabilities.js';
import type { GpuReading } from './resources.js';

const card = (id: number) => ({ id, vramMb: 40_000, tags: ['a100'] });
const shown = (...ids: number[]): GpuReading => ({ isInstalled: true, gpus: ids.map(card), problem: null });
const failing: GpuReading = { isInstalled: true, gpus: [], problem: 'nvidia-smi: Failed to initialize NVML' };

function setUp(first: GpuReading, chosen: readonly number[] | null = null) {
  const clock = new FakeClock();
  const inabilities = new Inabilities(() => undefined);
  /** `refusal`: words of the engine; null: it gives GPUs. */
  const machine: { reading: GpuReading; refusal: string | null; readings: number; probes: number } = {
    reading: first,
    refusal: null,
    readings: 0,
    probes: 0,
  };
  const watch = new GpuWatch({
    clock,
    logger: pino({ enabled: false }),
    random: () => 1,
    inabilities,
    read: () => {
      machine.readings += 1;
      return Promise.resolve(machine.reading);
    },
    chosen,
    probe: async () => {
      machine.probes += 1;
      if (machine.refusal !== null) throw new MachineUnable('gpus', 'no', machine.refusal);
    },
    onChange: () => undefined,
  });
  return {
    clock,
    machine,
    watch,
    stop: new AbortController(),
    offered: () => watch.gpus.map(({ id }) => id),
    said: () => inabilities.list().map(({ message }) => message),
  };
}

test('GPUs are those that nvidia-smi shows: none while it fails, with its words, and again afterwards', async () => {
  const it = setUp(failing);
  await it.watch.check();
  assert.deepEqual([it.offered(), it.said()], [[], [failing.problem]]);
  void it.watch.run(it.stop.signal);
  it.machine.reading = shown(0, 1);
  await it.clock.pass(10_000);
  assert.deepEqual([it.offered(), it.said()], [[0, 1], []]);
  it.machine.reading = shown(1);
  await it.clock.pass(60_000);
  assert.deepEqual([it.offered(), it.said()], [[1], ['nvidia-smi does not show GPU 0']]);
  it.stop.abort();
});

test('a machine without nvidia-smi is asked once', async () => {
  const it = setUp({ isInstalled: false, gpus: [], problem: null });
  await it.watch.check();
  await it.watch.run(it.stop.signal);
  assert.deepEqual([it.machine.readings, it.machine.probes, it.said()], [1, 0, []]);
});

test('an engine that gives no GPUs at the start is offered no run with GPUs, and tried again with growing pauses', async () => {
  const it = setUp(shown(0));
  it.machine.refusal = 'could not select device driver';
  await it.watch.check();
  assert.deepEqual([it.offered(), it.said(), it.machine.probes], [[], [it.machine.refusal], 1]);
  void it.watch.run(it.stop.signal);
  await it.clock.pass(299_000);
  assert.equal(it.machine.probes, 1);
  await it.clock.pass(2_000);
  assert.equal(it.machine.probes, 2, 'after 5 minutes');
  await it.clock.pass(598_000);
  assert.equal(it.machine.probes, 2);
  it.machine.refusal = null;
  await it.clock.pass(3_000);
  assert.deepEqual([it.machine.probes, it.offered(), it.said()], [3, [0], []], 'after 10 more');
  it.stop.abort();
});

test('a run that gets no GPU takes them from the offer, longer each time until the container of one has started', async () => {
  const it = setUp(shown(0));
  await it.watch.check();
  void it.watch.run(it.stop.signal);
  const pauseAfterFault = async (): Promise<number> => {
    it.watch.recordFault('driver/library version mismatch');
    assert.deepEqual([it.offered(), it.said()], [[], ['driver/library version mismatch']]);
    let minutes = 0;
    for (; it.offered().length === 0; minutes += 1) await it.clock.pass(60_000);
    return minutes;
  };
  assert.deepEqual([await pauseAfterFault(), await pauseAfterFault()], [5, 10]);
  it.watch.recordStart();
  assert.equal(await pauseAfterFault(), 5);
  it.stop.abort();
});

test('only the chosen GPUs are offered, and one of them that is gone is named', async () => {
  const it = setUp(shown(0, 1, 2), [2, 3]);
  await it.watch.check();
  assert.deepEqual([it.offered(), it.said()], [[2], ['nvidia-smi does not show GPU 3']]);
});
