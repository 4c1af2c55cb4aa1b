import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { carriedKeys, isMeantToCarryKey } from './carried-keys.js';

describe('the keys of a request', () => {
  test('are those of X-API-Key and of the bearer, in this order', () => {
    assert.deepEqual(carriedKeys({ 'x-api-key': 'a', authorization: 'Bearer b' }), ['a', 'b']);
    assert.deepEqual(carriedKeys({ 'x-api-key': 'a' }), ['a']);
    assert.deepEqual(carriedKeys({ authorization: 'Bearer b c' }), ['b c']);
  });

  test('are none in an empty header, another scheme, or a name in another case', () => {
    for (const authorization of ['Basic b', 'bearer b', 'Bearer', 'b', '']) {
      assert.deepEqual(carriedKeys({ 'x-api-key': '', authorization }), [], authorization);
    }
    assert.deepEqual(carriedKeys({}), []);
  });

  test('are meant to be there when a header for them is', () => {
    assert.equal(isMeantToCarryKey({ 'x-api-key': '' }), true);
    assert.equal(isMeantToCarryKey({ authorization: 'Basic b' }), true);
    assert.equal(isMeantToCarryKey({ cookie: 'k' }), false);
  });
});
