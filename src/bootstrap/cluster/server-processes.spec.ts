import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { RestartBackoff } from './server-processes.js';

function pausesOf(lives: readonly number[], random: () => number = () => 1 - Number.EPSILON): number[] {
  const pauses = new RestartBackoff(random);
  return lives.map((livedMs) => pauses.next(livedMs));
}

describe('the pause before a server process is replaced', () => {
  it('is none for the first process that ends', () => {
    assert.deepEqual(pausesOf([10]), [0]);
    assert.deepEqual(pausesOf([3_600_000]), [0]);
  });

  it('doubles with every further short life, up to 15 s', () => {
    assert.deepEqual(
      pausesOf(Array.from({ length: 9 }, () => 100)),
      [0, 500, 1000, 2000, 4000, 8000, 15_000, 15_000, 15_000],
    );
    assert.equal(pausesOf(Array.from({ length: 5_000 }, () => 100)).at(-1), 15_000);
  });

  it('is reset when a process lived for half a minute', () => {
    assert.deepEqual(pausesOf([1, 1, 1, 30_000, 1, 29_999, 1]), [0, 500, 1000, 0, 500, 1000, 2000]);
  });

  it('is randomised over its upper half', () => {
    assert.deepEqual(
      pausesOf([1, 1, 1], () => 0),
      [0, 250, 500],
    );
    assert.deepEqual(
      pausesOf([1, 1, 1], () => 0.5),
      [0, 375, 750],
    );
  });
});
