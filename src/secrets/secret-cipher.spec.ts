import 'reflect-metadata';
import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { describe, it } from 'vitest';
import { SecretCipher, type SecretIdentity } from './secret-cipher.js';
import { SecretUndecryptable } from './secrets.errors.js';

const SECRET: SecretIdentity = { name: 'database-password', kind: 'opaque' };
const VALUE = 'hunter2 \u{1F511} é';

function cipherOf(...keys: string[]): SecretCipher {
  return new SecretCipher({ secretsKeys: keys.map((key) => createSecretKey(Buffer.alloc(32, key))) });
}

const CIPHER = cipherOf('one');

describe('the cipher of secrets', () => {
  it('uses another nonce each time, so that equal values cannot be told', () => {
    const made = Array.from({ length: 1000 }, () => CIPHER.encrypt(SECRET, VALUE).subarray(8));
    assert.equal(new Set(made.map((bytes) => bytes.subarray(0, 12).toString('hex'))).size, made.length);
    assert.equal(new Set(made.map((bytes) => bytes.subarray(12).toString('hex'))).size, made.length);
  });

  it('begins with the id of the first key, the beginning of no key', () => {
    const made = CIPHER.encrypt(SECRET, VALUE);
    assert.deepEqual(made.subarray(0, 8), CIPHER.keyId);
    assert.deepEqual(cipherOf('one', 'two').keyId, CIPHER.keyId);
    assert.notDeepEqual(cipherOf('two').keyId, CIPHER.keyId);
    assert.notDeepEqual(CIPHER.keyId, Buffer.alloc(32, 'one').subarray(0, 8));
  });

  it('refuses a value that was moved to another name or kind', () => {
    const made = CIPHER.encrypt(SECRET, VALUE);
    for (const other of [
      { ...SECRET, name: 'other' },
      { ...SECRET, kind: 'registry' },
    ] as const) {
      assert.throws(() => CIPHER.decrypt(other, made), SecretUndecryptable);
    }
  });

  it('refuses a ciphertext with any bit changed, and every beginning of one', () => {
    const made = CIPHER.encrypt(SECRET, VALUE);
    for (let at = 0; at < made.length; at += 1) {
      const changed = Buffer.from(made);
      changed.writeUInt8((changed[at] ?? 0) ^ 1, at);
      assert.throws(() => CIPHER.decrypt(SECRET, changed), SecretUndecryptable, `byte ${at}`);
      assert.throws(() => CIPHER.decrypt(SECRET, made.subarray(0, at)), SecretUndecryptable, `${at} bytes`);
    }
  });
});
