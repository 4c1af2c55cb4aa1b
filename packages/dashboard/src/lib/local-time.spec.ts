import assert from 'node:assert/strict';
import { afterAll, describe, it } from 'vitest';
import { describeLocal, fromLocalInput, offsetHint, readLocalInput, toLocalInput } from './local-time.js';

const inZone = (zone: string): void => void (process.env['TZ'] = zone);

describe('a time that is entered in the local zone', () => {
  const { TZ } = process.env;
  afterAll(() => {
    if (TZ === undefined) delete process.env['TZ'];
    else process.env['TZ'] = TZ;
  });

  it('is refused where the clocks skip it, with the time that follows', () => {
    inZone('Europe/Berlin');
    assert.deepEqual(readLocalInput('2027-03-28T02:30'), {
      problem:
        'This time does not exist in Europe/Berlin: the clocks are put forward. The next is 2027-03-28 03:30 UTC+02:00.',
    });
    assert.ok('problem' in readLocalInput('2027-03-28T02:00:00'));
    inZone('Australia/Lord_Howe');
    assert.ok('problem' in readLocalInput('2027-10-03T02:15'));
    assert.deepEqual(readLocalInput('2027-10-03T02:30'), { value: '2027-10-02T15:30:00Z' });
  });

  for (const [local, iso] of [
    ['2027-06-01T00:00', '2027-05-31T22:00:00Z'],
    ['2027-01-31T23:59:30', '2027-01-31T22:59:30Z'],
  ] as const) {
    it(`in Berlin, ${local}, is ${iso}, and is shown as it was entered`, () => {
      inZone('Europe/Berlin');
      assert.equal(fromLocalInput(local), iso);
      assert.equal(toLocalInput(iso), local);
    });
  }

  for (const local of ['', 'x', '2027-02-30T09:00', '2027-03-28T02:30']) {
    it(`is none for ${JSON.stringify(local)}`, () => {
      inZone('Europe/Berlin');
      assert.equal(fromLocalInput(local), '');
    });
  }

  it('is no time on a day that does not exist', () => {
    assert.deepEqual(readLocalInput('2027-02-30T09:00'), { problem: 'Enter a date and a time.' });
  });

  it('is taken on both sides of the gap', () => {
    inZone('Europe/Berlin');
    assert.deepEqual(readLocalInput('2027-03-28T01:59:59'), { value: '2027-03-28T00:59:59Z' });
    assert.deepEqual(readLocalInput('2027-03-28T03:00'), { value: '2027-03-28T01:00:00Z' });
    assert.deepEqual(readLocalInput(''), { problem: 'Enter a date and a time.' });
  });

  it('is shown with its offset, and as the first of two where it is repeated', () => {
    inZone('Europe/Berlin');
    assert.equal(offsetHint('2027-03-27T02:30'), 'UTC+01:00, Europe/Berlin');
    const twice = 'UTC+02:00, Europe/Berlin: the first of the two, as the clocks are put back';
    assert.equal(offsetHint('2027-10-31T02:30'), twice);
    assert.equal(offsetHint('2027-10-31T03:00'), 'UTC+01:00, Europe/Berlin');
    assert.equal(offsetHint('2027-03-28T02:30'), undefined);
    inZone('America/St_Johns');
    assert.equal(describeLocal('2027-01-01T00:00:00Z'), '2026-12-31 20:30 UTC-03:30');
  });
});
