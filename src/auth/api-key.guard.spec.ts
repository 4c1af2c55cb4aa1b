import 'reflect-metadata';
import assert from 'node:assert/strict';
import { IncomingMessage, ServerResponse, type IncomingHttpHeaders } from 'node:http';
import { Socket } from 'node:net';
import { describe, test } from 'vitest';
import { Reflector } from '@nestjs/core';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { Settings } from '../config/settings.js';
import { createLog } from '../common/logging/logger.js';
import { AllowAnyKey, AllowScopes, Public, type Caller } from './access.js';
import { ApiKeyGuard, createAuthenticator } from './api-key.guard.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { hashApiKey, makeApiKey } from './api-key.js';
import { InvalidApiKey, MissingApiKey } from './auth.errors.js';
import { OverLimit } from '../common/errors/domain-error.js';
import { FailedAuthentications } from './failed-authentications.js';
import { KeyUsage } from './key-usage.js';
import { RevokedKeyResponses } from './revoked-key-responses.js';
import { ApiKeyCache } from './api-key-cache.js';
import { FakeKeys } from './testing/fake-keys.js';
import { ManualClock } from '../common/testing/manual-clock.js';

class Routes {
  @AllowAnyKey()
  anyKey(this: void): void {}

  @AllowScopes('worker', 'admin')
  workers(this: void): void {}

  @Public()
  open(this: void): void {}
}

const STORED = makeApiKey('client');
const LIMIT = 20;
const reflector = new Reflector();
const log = createLog({ logLevel: 'error' }, { destination: { write: () => undefined }, pretty: false });

/** The guard of an application with the given keys, and one key in its database. */
function boot(...startupKeys: readonly string[]) {
  const keys = new FakeKeys();
  keys.add(hashApiKey(STORED), { name: 'stored' });
  const clock = new ManualClock();
  const cache = new ApiKeyCache(keys, clock);
  const failures = new FailedAuthentications(
    Object.assign(new Settings(), { authFailureLimit: LIMIT }),
    clock,
  );
  const verifier = new ApiKeyVerifier(
    startupKeys.map((key) => ({ scope: 'client', name: 'client', key, origin: 'settings' })),
    cache,
    new KeyUsage(keys, clock, log),
    failures,
  );
  const guard = new ApiKeyGuard(createAuthenticator(verifier), reflector, new RevokedKeyResponses(cache));
  const call = async (headers: IncomingHttpHeaders, handler = Routes.prototype.anyKey, earlier?: Caller) => {
    const request = new IncomingMessage(new Socket());
    Reflect.set(request, 'user', earlier);
    Object.assign(request.headers, headers);
    const context = new ExecutionContextHost([request, new ServerResponse(request)], Routes, handler);
    await guard.canActivate(context);
    const user: Caller | undefined = Reflect.get(request, 'user');
    return user?.name;
  };
  return { call, keys, failures, clock };
}

describe('authentication of a request', () => {
  test('takes the key from X-API-Key and from Authorization: Bearer', async () => {
    const { call } = boot('a b');
    for (const headers of [
      { 'x-api-key': 'a b' },
      { authorization: 'Bearer a b' },
      { authorization: 'bearer a b' },
      { authorization: 'BEARER  a b' },
      { 'x-api-key': '', authorization: 'Bearer a b' },
    ]) {
      assert.equal(await call(headers), 'settings:client', JSON.stringify(headers));
    }
  });

  test('accepts the first of two keys that is valid, whether or not the database must be asked', async () => {
    const { call } = boot('known');
    assert.equal(await call({ 'x-api-key': 'wrong', authorization: 'Bearer known' }), 'settings:client');
    assert.equal(
      await call({ 'x-api-key': makeApiKey('client'), authorization: `Bearer ${STORED}` }),
      'stored',
    );
    assert.equal(await call({ 'x-api-key': STORED, authorization: 'Bearer known' }), 'stored');
  });

  test('does not accept a caller that was set on the request before', async () => {
    const { call } = boot('a');
    const earlier: Caller = {
      id: 'i',
      keyId: 'i',
      name: 'earlier',
      scopes: new Set(['admin']),
      workerIds: null,
      workerTags: null,
      workerCapabilities: null,
      stores: null,
      expiresAt: null,
    };
    await assert.rejects(call({}, undefined, earlier), MissingApiKey);
    await assert.rejects(call({ 'x-api-key': makeApiKey('admin') }, undefined, earlier), InvalidApiKey);
    assert.equal(await call({ 'x-api-key': STORED }, undefined, earlier), 'stored');
  });

  test('does not share keys between two applications of one process', async () => {
    const [one, other] = [boot('one'), boot('other')];
    assert.equal(await one.call({ 'x-api-key': 'one' }), 'settings:client');
    await assert.rejects(one.call({ 'x-api-key': 'other' }), InvalidApiKey);
    await assert.rejects(other.call({ 'x-api-key': 'one' }), InvalidApiKey);
  });
});

describe('failed authentications of an address', () => {
  test('forget a key that is no longer valid', async () => {
    const { call, clock, keys } = boot();
    assert.equal(await call({ 'x-api-key': STORED }), 'stored');
    keys.usable.clear();
    clock.advance(10_000);
    for (let n = 0; n < LIMIT; n += 1) await assert.rejects(call({ 'x-api-key': STORED }), InvalidApiKey);
    await assert.rejects(call({ 'x-api-key': STORED }), OverLimit);
  });

  test('and its keys take a bounded place in memory', () => {
    const { failures } = boot();
    for (let n = 0; n < 1000; n += 1) failures.note(`address ${n}`, 'hash', true);
    assert.equal(failures.size, 100);
    for (let n = 0; n < 20_000; n += 1) failures.note('address', `hash ${n}`, true);
    assert.equal(failures.size, 10_000);
  });
});
