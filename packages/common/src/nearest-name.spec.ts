import assert from 'node:assert/strict';
import { test } from 'vitest';
import { nearestName } from './nearest-name.js';

const KNOWN = [
  'image',
  'inputs',
  'env',
  'args',
  'retry_policy',
  'constraints',
  'word-count',
  'id',
  'stop_grace_s',
];

for (const [name, nearest] of [
  ['imagee', 'image'],
  ['imgae', 'image'],
  ['imae', 'image'],
  ['retryPolicy', 'retry_policy'],
  ['retry-polcy', 'retry_policy'],
  ['wrod-count', 'word-count'],
  ['Word_Count', 'word-count'],
  ['wrd-coutn', 'word-count'],
  ['constrainst', 'constraints'],
  ['ENV', 'env'],
  ['input', 'inputs'],
  ['envs', 'env'],
  ['arg', undefined],
  ['di', undefined],
  ['image', undefined],
  ['picture', undefined],
  ['word-counting', undefined],
  ['', undefined],
  ['image'.repeat(20), undefined],
] as const) {
  test(`${name.slice(0, 40)} was meant to be ${nearest ?? 'none of the known names'}`, () => {
    assert.equal(nearestName(name, KNOWN), nearest);
  });
}
