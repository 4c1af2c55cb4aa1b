import assert from 'node:assert/strict';
import { test } from 'vitest';
import { hashApiKey, isApiKey, makeApiKey, prefixOf } from './api-key.js';

test('keys show their purpose and never repeat', () => {
  const keys = Array.from({ length: 200 }, () => makeApiKey('worker'));
  assert.equal(new Set(keys).size, 200);
  for (const key of keys) {
    assert.match(key, /^ls_worker_[0-9A-Za-z]{38}$/);
    assert.equal(isApiKey(key), true);
  }
});

test('a key with one wrong letter is no key', () => {
  const key = makeApiKey('admin');
  const secret = key.lastIndexOf('_') + 1;
  for (let at = secret; at < key.length; at += 1) {
    const wrong = key[at] === 'a' ? 'b' : 'a';
    assert.equal(isApiKey(key.slice(0, at) + wrong + key.slice(at + 1)), false, `letter ${at}`);
  }
});

test('a text of another make is no key', () => {
  for (const text of [
    '',
    'secret',
    'ls_admin_',
    `ls_admin_${'a'.repeat(37)}`,
    `LS_admin_${'a'.repeat(38)}`,
  ]) {
    assert.equal(isApiKey(text), false);
  }
});

test('a prefix shows the purpose and four letters, which leaves 160 bits and more in the dark', () => {
  const key = makeApiKey('client');
  const prefix = prefixOf(key);
  assert.match(prefix, /^ls_client_[0-9A-Za-z]{4}$/);
  assert.ok(key.startsWith(prefix));
  assert.ok(Math.log2(62) * (32 - 4) >= 160);
});

test('a hash is the SHA-256 in hexadecimal', () => {
  assert.equal(hashApiKey('abc'), 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
});
