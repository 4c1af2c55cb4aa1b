import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { describe, it } from 'vitest';
import { scrapedReading } from './scraped-reading.js';

describe('a reading that scrapes share', () => {
  it('is looked up once for all who ask at the same time, and anew for who asks later', async () => {
    let looks = 0;
    const read = scrapedReading(() => Promise.resolve((looks += 1)));
    assert.deepEqual(await Promise.all([read(), read(), read()]), [1, 1, 1]);
    assert.equal(await read(), 2);
  });

  it('is not waited for when it takes too long, and is not begun again meanwhile', async () => {
    let looks = 0;
    const gate = new EventEmitter();
    const slow = async (): Promise<unknown> => {
      looks += 1;
      const [value] = await once(gate, 'answer');
      return value;
    };
    const read = scrapedReading(slow, undefined, 5);
    assert.equal(await read(), null);
    assert.equal(await read(), null);
    assert.equal(looks, 1);
    const waiting = read();
    gate.emit('answer', 'late');
    assert.equal(await waiting, 'late');
  });

  it('is nothing when it fails, which is told once a look, and is tried again', async () => {
    let failures = 0;
    let isDown = true;
    const read = scrapedReading(
      () => (isDown ? Promise.reject(new Error('down')) : Promise.resolve('up')),
      () => (failures += 1),
    );
    assert.deepEqual(await Promise.all([read(), read()]), [null, null]);
    assert.equal(failures, 1);
    isDown = false;
    assert.equal(await read(), 'up');
  });
});
