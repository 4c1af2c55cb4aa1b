import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { describe, it } from 'vitest';
import { SharedReading } from './shared-reading.js';

describe('a reading that scrapes share', () => {
  it('is looked up once for all who ask at the same time, and anew for who asks later', async () => {
    let looks = 0;
    const reading = new SharedReading(() => Promise.resolve((looks += 1)));
    assert.deepEqual(await Promise.all([reading.get(), reading.get(), reading.get()]), [1, 1, 1]);
    assert.equal(await reading.get(), 2);
  });

  it('is not waited for when it takes too long, and is not begun again meanwhile', async () => {
    let looks = 0;
    const gate = new EventEmitter();
    const slow = async (): Promise<unknown> => {
      looks += 1;
      const [value] = await once(gate, 'answer');
      return value;
    };
    const reading = new SharedReading(slow, undefined, 5);
    assert.equal(await reading.get(), null);
    assert.equal(await reading.get(), null);
    assert.equal(looks, 1);
    const waiting = reading.get();
    gate.emit('answer', 'late');
    assert.equal(await waiting, 'late');
  });

  it('is nothing when it fails, which is told once a look, and is tried again', async () => {
    let failures = 0;
    let isDown = true;
    const reading = new SharedReading(
      () => (isDown ? Promise.reject(new Error('down')) : Promise.resolve('up')),
      () => (failures += 1),
    );
    assert.deepEqual(await Promise.all([reading.get(), reading.get()]), [null, null]);
    assert.equal(failures, 1);
    isDown = false;
    assert.equal(await reading.get(), 'up');
  });
});
