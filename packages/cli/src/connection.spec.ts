import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { CliError, EXIT } from './cli-error.js';
import { chooseConnection } from './connection.js';

const KEPT = { url: 'http://kept:1', apiKey: 'kept-key' };
const ENV = { SERVICE_URL: 'http://env:2', SERVICE_API_KEY: 'env-key' };
const isUsage = (error: unknown): boolean => error instanceof CliError && error.exitCode === EXIT.usage;

describe('the connection', () => {
  test('is of the flags, then of the environment, then of the login', () => {
    const flags = { url: 'http://flag:3/', key: 'flag-key' };
    assert.deepEqual(chooseConnection(flags, ENV, KEPT), { url: 'http://flag:3', apiKey: 'flag-key' });
    assert.deepEqual(chooseConnection({}, ENV, KEPT), { url: 'http://env:2', apiKey: 'env-key' });
    assert.deepEqual(chooseConnection({}, {}, KEPT), KEPT);
    assert.deepEqual(chooseConnection({ key: 'k' }, { SERVICE_URL: '' }, undefined), {
      url: 'http://127.0.0.1:5555',
      apiKey: 'k',
    });
  });

  test('never takes a kept key to another service', () => {
    assert.throws(() => chooseConnection({ url: 'http://other' }, {}, KEPT), isUsage);
    assert.throws(() => chooseConnection({}, { SERVICE_URL: 'http://other' }, KEPT), isUsage);
    assert.deepEqual(chooseConnection({ url: 'http://kept:1/' }, {}, KEPT), KEPT);
  });

  test('needs a key and a plain URL', () => {
    assert.throws(() => chooseConnection({}, {}, undefined), isUsage);
    assert.throws(() => chooseConnection({ key: 'two words' }, {}, undefined), isUsage);
    for (const url of ['nowhere', 'ftp://host', 'http://user:word@host', 'http://host/?a=b']) {
      assert.throws(() => chooseConnection({ url, key: 'k' }, {}, undefined), isUsage, url);
    }
  });
});
