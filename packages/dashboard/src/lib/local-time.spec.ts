import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { fromLocalInput, toLocalInput } from './local-time.js';

describe('a time of a browser in Berlin', () => {
  const zone = process.env['TZ'];
  beforeAll(() => {
    process.env['TZ'] = 'Europe/Berlin';
  });
  afterAll(() => {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  });

  for (const [local, iso] of [
    ['2027-06-01T00:00', '2027-05-31T22:00:00Z'],
    ['2027-01-31T23:59:30', '2027-01-31T22:59:30Z'],
  ] as const) {
    test(`${local} is ${iso}, and is shown as it was entered`, () => {
      assert.equal(fromLocalInput(local), iso);
      assert.equal(toLocalInput(iso), local);
    });
  }

  for (const local of ['', 'x', '2027-02-30T09:00', '2027-03-28T02:30']) {
    test(`${JSON.stringify(local)} is no time there`, () => assert.equal(fromLocalInput(local), ''));
  }
});
